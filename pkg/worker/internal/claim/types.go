package claim

import (
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// Moment is the time of a step, and a random number from 0 up to 1.
type Moment struct {
	Now  boottime.Instant
	Rand float64
}

// Input is what may happen.
type Input interface{ input() }

// The inputs.
type (
	// Tick: time has passed.
	Tick struct{}
	// Event is an entry of the log: the term of that epoch has begun, or has
	// ended.
	Event struct {
		Epoch uint64
		Ended bool
	}
	// Feed tells whether the log is followed without a gap.
	Feed struct{ Current bool }
	// Granted is the answer to the request with that number.
	Granted struct {
		Seq, Epoch uint64
		Leader     string
		Valid      time.Duration
	}
	// Refused is the other answer. Epoch is zero when the leader has none yet.
	Refused struct {
		Seq, Epoch uint64
		RetryAfter time.Duration
		// Draining is true when this leader will give no grant any more.
		Draining bool
	}
	// Silent: nobody took the request with that number.
	Silent struct{ Seq uint64 }
	// Returned: the leader has taken the grant back.
	Returned struct{ Seq uint64 }
	// Drain: the leader of that epoch wants its grants back.
	Drain struct{ Epoch uint64 }
	// Free: the role may have become free.
	Free struct {
		// All is true when all roles may be: there is a new leader. It may
		// not be in the log yet.
		All bool
	}
	// HandlerEnded: the work has returned.
	HandlerEnded struct {
		// Done is true when the work is complete and no grant is needed any
		// more.
		Done bool
		// CoolDown is how long to leave the role to others.
		CoolDown time.Duration
	}
	// Stop: the program wants to end.
	Stop struct{}
)

func (Tick) input()         {}
func (Event) input()        {}
func (Feed) input()         {}
func (Granted) input()      {}
func (Refused) input()      {}
func (Silent) input()       {}
func (Returned) input()     {}
func (Drain) input()        {}
func (Free) input()         {}
func (HandlerEnded) input() {}
func (Stop) input()         {}

// Action is what is to be done.
type Action interface{ action() }

// The actions.
type (
	// Ask sends a request for the grant. Its time of sending is that of the
	// step.
	Ask struct{ Seq uint64 }
	// Return sends the grant back.
	Return struct{ Seq uint64 }
	// Start runs the handler under a new grant.
	Start struct {
		Epoch    uint64
		Leader   string
		Deadline boottime.Instant
	}
	// Extend prolongs the grant.
	Extend struct{ Deadline boottime.Instant }
	// Cancel asks the handler to stop.
	Cancel struct{ Why Why }
	// Finish ends it all. It is the last action.
	Finish struct{ Overrun bool }
)

func (Ask) action()    {}
func (Return) action() {}
func (Start) action()  {}
func (Extend) action() {}
func (Cancel) action() {}
func (Finish) action() {}

// Why is why a handler has to stop.
type Why int

// The reasons.
const (
	TermEnded Why = iota
	Draining
	Refusal
	Lapsing
	Stopping
)

// String returns the reason as the end of a sentence that begins with "stop:".
func (w Why) String() string {
	switch w {
	case TermEnded:
		return "the leader's term is over"
	case Draining:
		return "the leader is about to hand over"
	case Refusal:
		return "the leader does not prolong the grant"
	case Lapsing:
		return "the grant was not renewed in time"
	case Stopping:
		return "the worker was asked to stop"
	}
	return "unknown"
}

// Word returns the reason as a word for machines.
func (w Why) Word() string {
	switch w {
	case TermEnded:
		return "term-ended"
	case Draining:
		return "draining"
	case Refusal:
		return "refused"
	case Lapsing:
		return "lapsing"
	case Stopping:
		return "stopping"
	}
	return "unknown"
}
