//go:build !linux && !darwin

package boottime

import (
	"sync"
	"time"
)

var (
	mu   sync.Mutex
	last = time.Now()
	at   = Instant(1)
)

func now() Instant {
	mu.Lock()
	defer mu.Unlock()
	t := time.Now()
	at = at.Add(passed(last, t))
	last = t
	return at
}
