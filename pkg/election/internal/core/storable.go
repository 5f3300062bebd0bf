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

// StoredTime returns t as every lock can store it: in UTC, with microseconds.
// A time that has no four-digit year there counts as absent.
func StoredTime(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
