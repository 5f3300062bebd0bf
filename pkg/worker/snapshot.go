package worker

import "time"

// Snapshot is what a worker does and knows at a moment.
type Snapshot struct {
	// Turned is when the worker last looked at what there is to do. That is once
	// a second at least, until Run returns.
	Turned time.Time
	// Holds is true while the worker holds the grant, and Epoch and Since tell of
	// which term and since when. They are zero otherwise.
	Holds bool
	Epoch uint64
	Since time.Time
	// Leader is who leads, as far as the log says, and LeaderEpoch the number of
	// the latest term.
	Leader      string
	LeaderEpoch uint64
	// Follows is true while the log is followed without a gap. LogErr is why it
	// is not; nil also before it was tried.
	Follows bool
	LogErr  error
}

// Snapshot returns the present state. It is the zero Snapshot before Run. It
// does not wait for the worker, and may be called from any goroutine.
func (w *Worker) Snapshot() Snapshot {
	if s := w.seen.Load(); s != nil {
		return *s
	}
	return Snapshot{}
}

// show publishes the state of the loop.
func (r *run) show() {
	s := Snapshot{
		Turned: time.Now(), Holds: r.holds, Leader: r.leader, LeaderEpoch: r.epoch, Follows: r.current, LogErr: r.logErr,
	}
	if r.holds {
		s.Epoch, s.Since = r.grant.Term().Epoch, r.since
	}
	r.seen.Store(&s)
}
