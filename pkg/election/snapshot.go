package election

import "time"

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
	// Turned is when the election's goroutine last came round: zero before
	// Run. While it is not stuck it does so at least once in a lease duration,
	// whether or not the store can be reached.
	Turned time.Time
	// LastError is why requests to the store fail now: the last error of
	// writes, or else of reads, or else of the watch, where none has succeeded
	// since. Empty when all is well.
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

// publish shows the loop's state to others.
func (r *run) publish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Turned = time.Now()
	r.status.Leading = r.state.Leading()
	r.status.Watching = r.state.Watching()
	r.Elector.term = r.term
}
