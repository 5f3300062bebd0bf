package election

import (
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// Status is what an observer knows of an election's present.
type Status int

// The states of an election.
const (
	// Free: the record names nobody.
	Free Status = iota
	// Held: the record names a holder whose time runs.
	Held
	// Lapsed: the record names a holder who let its time run out.
	Lapsed
	// Absent: there is no record.
	Absent
	// Ended: the term of this very process is over, whatever the record says.
	Ended
)

// String returns the status as a word for logs.
func (s Status) String() string {
	switch s {
	case Free:
		return "free"
	case Held:
		return "held"
	case Lapsed:
		return "lapsed"
	case Absent:
		return "absent"
	case Ended:
		return "ended"
	}
	return "unknown"
}

// State is a state of an election that differs from the one before in more
// than a renewal.
type State struct {
	Status Status
	// Observation is the lock's state that this speaks of. For Ended it is
	// the last one of the term.
	Observation Observation
	// At is when the state began, by the local time of day.
	At time.Time
	// Own is true when the term is this process's.
	Own bool
	// Reason is why the term ended, for Ended.
	Reason Reason
	// Gap is true when states before this one may not have been seen.
	Gap bool
	// Rewound is true when the store was found set back to an older state, as
	// after a restored backup: its revisions say nothing about what came
	// before.
	Rewound bool
}

// Holder returns who holds the election: empty for nobody.
func (s State) Holder() string {
	if s.Status != Held {
		return ""
	}
	return s.Observation.Record.Holder
}

func stateOf(v core.View) State {
	s := State{Observation: v.Obs, At: v.At, Own: v.Own, Gap: v.Gap, Rewound: v.Rewound}
	switch v.Status {
	case core.Free:
		s.Status = Free
	case core.Held:
		s.Status = Held
	case core.Lapsed:
		s.Status = Lapsed
	case core.Absent, core.Unknown:
		s.Status = Absent
	}
	return s
}
