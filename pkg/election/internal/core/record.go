package core

import "time"

// Record is what a lock stores: who holds the election, since when, and for
// how long a holder may go without renewing. It mirrors client-go's
// LeaderElectionRecord, so that plain client-go candidates can stand in the
// same election.
//
// A zero value of an optional field means that the lock does not have it.
// Times are compared with time.Time.Equal and carry microseconds at most,
// which is what a Lease stores.
type Record struct {
	// Holder is the identity of the holder; empty when nobody holds it.
	Holder string
	// Duration is how long the record protects its holder after a change.
	// Whole seconds; zero when the record has none.
	Duration time.Duration
	// Acquired and Renewed are wall-clock times of the holder's machine. They
	// are labels: no decision compares them with a local clock.
	Acquired time.Time
	Renewed  time.Time
	// Transitions counts changes of holder as client-go does. It may be reset
	// when the lock is recreated, so it is no fencing token.
	Transitions int
	// HasTransitions tells a stored zero from an absent field.
	HasTransitions bool

	// Epoch is the greatest epoch known to whoever wrote the record; zero when
	// unknown. EpochAcquired is the Acquired time of the term that Epoch
	// belongs to: they differ from the record's own until the holder's next
	// renewal, and for ever when the holder is a plain client-go candidate.
	Epoch         uint64
	EpochAcquired time.Time

	// Preferred names the candidate that a leader who handed over on request
	// would like to see next; others hold back for a moment.
	Preferred string

	// Strategy and PreferredHolder are those of Kubernetes' coordinated
	// election (KEP-4355). A Lease that has a strategy is managed by the API
	// server's controller and never taken by our candidates.
	Strategy        string
	PreferredHolder string
}

// Equal reports whether two records say the same, field by field.
func (r Record) Equal(o Record) bool {
	return r.Holder == o.Holder && r.Duration == o.Duration &&
		r.Acquired.Equal(o.Acquired) && r.Renewed.Equal(o.Renewed) &&
		r.Transitions == o.Transitions && r.HasTransitions == o.HasTransitions &&
		r.Epoch == o.Epoch && r.EpochAcquired.Equal(o.EpochAcquired) &&
		r.Preferred == o.Preferred &&
		r.Strategy == o.Strategy && r.PreferredHolder == o.PreferredHolder
}

// Observation is the state of a lock at one moment of its history.
type Observation struct {
	// Exists is false when the lock is absent: never created, or deleted.
	Exists bool
	// UID identifies one creation of the lock; a deleted and recreated lock
	// has another.
	UID string
	// Revision orders the states of a lock: it rises with every write, also
	// across deletion and recreation, unless the store itself was set back.
	// Zero when unknown, as for a lock read as absent.
	Revision uint64
	Record   Record

	// Handle is the lock's own: what it needs to replace exactly this state.
	// Nobody else looks inside.
	Handle any
}
