//go:build unix

package process

import (
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// plan holds the spans of time from which the moments of a stop follow.
type plan struct {
	// Grace is how long a command may take to stop when there is time.
	Grace time.Duration
	// Reserve is how much of the grant is kept for that when it lapses.
	Reserve time.Duration
	// Margin lies between SIGKILL and the deadline: the time in which the
	// guard must be scheduled and the kernel must have ended every process.
	Margin time.Duration
}

// newPlan makes a plan for a grant that is valid for so long when it begins.
// The reserve is at most a third of it: the grant is renewed after a third, so
// that one renewal may fail before the command is asked to stop.
func newPlan(validity, grace time.Duration) plan {
	return plan{
		Grace:   grace,
		Reserve: min(grace, validity/3),
		Margin:  min(validity/10, 500*time.Millisecond),
	}
}

// schedule says when a running command is to be asked to stop, and when it is
// to be killed. It has no clock of its own.
type schedule struct {
	plan
	deadline boottime.Instant
	// stopping is when the command was, or is to be, asked to stop ahead of
	// the deadline; zero when it is not.
	stopping boottime.Instant
	// asked is true when the command has been asked.
	asked bool
}

// extend moves the deadline forward. A command that was asked to stop stays
// asked, but may use the time for its grace.
func (s *schedule) extend(deadline boottime.Instant) { s.deadline = max(s.deadline, deadline) }

// stop lets the command be asked to stop now.
func (s *schedule) stop(now boottime.Instant) {
	if s.stopping == 0 {
		s.stopping = now
	}
}

// moments returns when SIGTERM and SIGKILL are due.
func (s *schedule) moments() (term, kill boottime.Instant) {
	kill = s.deadline.Add(-s.Margin)
	term = kill.Add(-s.Reserve)
	if s.stopping != 0 {
		term = min(term, s.stopping)
		kill = min(kill, s.stopping.Add(s.Grace))
	}
	return term, kill
}

// last is when the worker itself must act because the guard does not. Earlier
// it might mistake a busy machine's guard for a stopped one; later it would
// have too little time for its own way, which takes longer.
func (s *schedule) last() boottime.Instant { return s.deadline.Add(-s.Margin / 3 * 2) }

type step int

const (
	wait step = iota
	ask
	kill
)

// next returns what is due now, and the instant at which to look again.
func (s *schedule) next(now boottime.Instant) (step, boottime.Instant) {
	termAt, killAt := s.moments()
	switch {
	case now >= killAt:
		return kill, now
	case s.asked:
		return wait, killAt
	case now >= termAt:
		s.asked = true
		s.stop(now)
		_, killAt = s.moments()
		return ask, killAt
	default:
		return wait, termAt
	}
}
