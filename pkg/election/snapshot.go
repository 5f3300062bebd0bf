package election

import (
	"fmt"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// Snapshot is what an Elector knows at one moment.
type Snapshot struct {
	// Known is true once the lock's state has been seen.
	Known bool
	// State is the last one told to Options.Observe, except Ended.
	State State
	// Leading is true while a term of this process runs.
	Leading bool
	// Watching is true while changes arrive as they happen, and not by
	// polling.
	Watching bool
	// LastError is that of the last request to the store; empty after one
	// that succeeded.
	LastError string
}

// Snapshot returns what is known now.
func (e *Elector) Snapshot() Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// Term returns the running term, or nil.
func (e *Elector) Term() *Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// Identity returns the name that this process stands under.
func (e *Elector) Identity() string { return e.opts.Identity }

// Stuck returns an error when the election's goroutine has not come round for
// longer than it meant to sleep plus the margin: the process then cannot end
// its own term any more, and only a restart helps. It says nothing about the
// store, whose absence is no reason for a restart.
func (e *Elector) Stuck(margin time.Duration) error {
	wake := boottime.Instant(e.wake.Load())
	if wake == 0 {
		return nil // not started
	}
	select {
	case <-e.ended:
		return nil
	default:
	}
	if late := boottime.Now().Sub(wake); late > margin {
		return fmt.Errorf("the election on %s should have acted %s ago", e.lock, late.Round(time.Second))
	}
	return nil
}

// publish shows the loop's state to others.
func (r *run) publish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Leading = r.state.Leading()
	r.status.Watching = r.state.Watching()
	r.Elector.term = r.term
}
