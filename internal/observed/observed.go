// Package observed says the states of a lock in the words of the log.
package observed

import (
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Of says a state of a lock in the words of the log.
func Of(s election.State) events.Observed {
	r := s.Observation.Record
	o := events.Observed{
		Status:      statusOf(s.Status),
		UID:         s.Observation.UID,
		Revision:    s.Observation.Revision,
		Holder:      r.Holder,
		At:          s.At,
		Reason:      events.Reason(s.Reason),
		Own:         s.Own,
		Gap:         s.Gap,
		Confirmed:   s.Rewound,
		AcquireTime: r.Acquired,
		RenewTime:   r.Renewed,
		EpochFloor:  r.Epoch,
		EpochIsOwn:  r.Epoch > 0 && !r.Acquired.IsZero() && r.EpochAcquired.Equal(r.Acquired),
	}
	if r.HasTransitions {
		o.LeaseTransitions = &r.Transitions
	}
	if seconds := int(r.Duration / time.Second); seconds > 0 {
		o.LeaseDurationSeconds = &seconds
	}
	return o
}

func statusOf(s election.Status) events.Status {
	switch s {
	case election.Free:
		return events.Free
	case election.Held:
		return events.Held
	case election.Lapsed:
		return events.Lapsed
	case election.Ended:
		return events.Ended
	case election.Absent:
	}
	return events.Absent
}

// Present is the state that an observation read from the store shows.
func Present(obs election.Observation) events.Observed {
	s := election.State{Status: election.Held, Observation: obs, At: time.Now()}
	switch {
	case !obs.Exists:
		s.Status = election.Absent
	case obs.Record.Holder == "":
		s.Status = election.Free
	}
	return Of(s)
}
