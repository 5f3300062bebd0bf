package boottime

import (
	"sync"
	"time"
)

// slice is the longest that a Timer trusts the runtime's timers, which stand
// still during a suspend: so much later than its instant may a Timer fire
// after a resume. Shorter slices cost wake-ups.
const slice = 200 * time.Millisecond

// Timer calls a function once an instant has come, also when the machine was
// suspended meanwhile: then at most 200 ms after it runs again. Whoever must
// not act past the instant reads the clock besides.
// Its methods are safe for concurrent use.
type Timer struct {
	f func()

	mu    sync.Mutex
	at    Instant
	armed bool
	t     *time.Timer
}

// AfterFunc calls f in its own goroutine once at has come; at once when it is
// past. The Timer holds no goroutine while it waits.
func AfterFunc(at Instant, f func()) *Timer {
	t := &Timer{f: f, at: at, armed: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.t = time.AfterFunc(wait(at), t.fire)
	return t
}

// Reset moves the Timer to another instant. It reports whether the Timer was
// still waiting; when it was not, its function runs once more.
func (t *Timer) Reset(at Instant) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.armed
	t.at, t.armed = at, true
	t.t.Reset(wait(at))
	return was
}

// Stop keeps the function from being called. It reports whether the Timer was
// still waiting; when it was not, the function has been started and may still
// run.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.armed
	t.armed = false
	t.t.Stop()
	return was
}

func (t *Timer) fire() {
	t.mu.Lock()
	if !t.armed {
		t.mu.Unlock()
		return
	}
	if w := wait(t.at); w > 0 {
		t.t.Reset(w)
		t.mu.Unlock()
		return
	}
	t.armed = false
	t.mu.Unlock()
	t.f()
}

func wait(at Instant) time.Duration { return max(0, min(Until(at), slice)) }
