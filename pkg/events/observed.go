package events

import "time"

// Status is what an observer knows of an election's present.
type Status int

// The states of an election.
const (
	// Free: the record exists and names nobody.
	Free Status = iota
	// Held: the record names a holder whose lease runs.
	Held
	// Lapsed: the record names a holder who let the lease run out.
	Lapsed
	// Absent: there is no record, and the time of whoever held it when it
	// vanished is over. Until then it counts as held.
	Absent
	// Ended: the leader itself says that its term is over, whatever the
	// record still says.
	Ended
)

// Observed is one state of an election as one replica saw it. States that
// differ only in RenewTime, Revision and what the record says about epochs are
// the same state.
type Observed struct {
	Status Status
	UID    string
	// Revision is that of the record: for Lapsed and Ended, of the last record
	// that named the term; for Absent, of the deletion, or zero when the store
	// does not tell.
	Revision uint64
	// Holder is the identity in the record, or the one whose term has Ended.
	Holder string
	// At is when the state began, by the observer's wall clock.
	At time.Time
	// Reason is why the term ended (Ended), or empty.
	Reason Reason
	// Own is true when the term is or was the observer's own (Held, Ended).
	Own bool
	// Gap is true when states may have come and gone unseen since the state
	// observed before.
	Gap bool
	// Missed counts the terms since the state before that were seen and could
	// not be kept.
	Missed uint64
	// Confirmed is true when the state was read from the store itself, not
	// from a cache or a watch, after the log's tail had been read. Nothing
	// that the tail says can be newer then, whatever the revisions are: the
	// store may have been set back, or may not have told a revision. A
	// [Recorder] that can read the store finds this out by itself, and does
	// not ask its observers.
	Confirmed bool

	AcquireTime          time.Time
	RenewTime            time.Time
	LeaseTransitions     *int
	LeaseDurationSeconds *int

	// EpochFloor is the epoch written in the record; zero when none is.
	EpochFloor uint64
	// EpochIsOwn is true when EpochFloor was written for the very term that
	// the record names, and is therefore its number.
	EpochIsOwn bool
}
