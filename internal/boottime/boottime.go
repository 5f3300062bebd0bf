package boottime

import "time"

// Instant is a moment on this machine's boot-time clock, in nanoseconds since
// a fixed moment that is the same for the life of the process, and on Linux
// for the life of the machine. Instants are compared with < and >. The zero
// Instant is always past.
type Instant int64

// Now returns the present moment. It never goes backwards. It is safe for
// concurrent use and costs one system call, well under a microsecond.
func Now() Instant {
	if t := time.Now(); t == t.Round(0) { // Equal would not look at the monotonic reading
		// Only in a synctest bubble has a time no monotonic reading.
		return Instant(t.UnixNano())
	}
	return now()
}

// Until returns how long it is until i; zero or negative when i is past.
func Until(i Instant) time.Duration { return i.Sub(Now()) }

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }
