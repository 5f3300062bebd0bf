package core

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Storable returns why a lock cannot store the record, and nil if it can: a
// Lease holds whole seconds, of 32 bits, and every lock holds UTF-8. What
// would be stored as something else must be refused, or its writer would not
// know its own record again.
func (r Record) Storable() error {
	if r.Duration < 0 || r.Duration%time.Second != 0 || r.Duration/time.Second > math.MaxInt32 {
		return fmt.Errorf("a lease duration of %s cannot be stored: it must be whole seconds, at most %d", r.Duration, math.MaxInt32)
	}
	for _, s := range []string{r.Holder, r.Preferred, r.Strategy, r.PreferredHolder} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("the identity %q cannot be stored: it is not UTF-8", s)
		}
	}
	return nil
}
