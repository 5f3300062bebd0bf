package core

import "time"

// Instant is a moment on the local clock that only runs forward, also while
// the machine sleeps. Instants of two processes must not be compared.
type Instant time.Duration

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// Never is later than any moment that comes.
const Never = Instant(1<<63 - 1)

// Moment is what the outside world adds to each step.
type Moment struct {
	Now Instant
	// Wall is the time of day: it is written into records and reports, and no
	// decision depends on it.
	Wall time.Time
	// Rand is a random number in [0,1) for jitter.
	Rand float64
}

// Config is fixed for the life of a State.
type Config struct {
	Identity      string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
	// Unfit says that the process may not stand until Stand says so.
	Unfit bool
	// DrainTimeout bounds how long a term goes on after it was asked to end.
	DrainTimeout time.Duration
}

// Reason says why a term ended.
type Reason int

// The reasons; package election gives them their public names.
const (
	NoReason Reason = iota
	Released
	RenewDeadline
	Superseded
	Deleted
	StepDown
	Unhealthy
	WorkEnded
)

// Term is one uninterrupted reign of this process.
type Term struct {
	// Acquired is the acquire time in the record: together with the identity
	// it names the term.
	Acquired time.Time
	UID      string
	// Clean is true when the record that this term replaced proves that its
	// former holder had released it, or let its time run out. A lock that was
	// created proves nothing: it may have been deleted under a holder that
	// this process never saw, who may be at work for a lease duration yet.
	Clean bool
}

// Status is what the lock says, as far as an observer may tell others.
type Status int

// The states of a lock.
const (
	Unknown Status = iota
	Free
	Held
	Lapsed
	Absent
)

// View is a state of the lock worth telling others. Two views in a row differ
// in more than a renewal.
type View struct {
	Status Status
	Obs    Observation
	At     time.Time
	// Own is true when the holder is this process, in its present term.
	Own bool
	// Gap is true when states in between may not have been seen.
	Gap bool
	// Rewound is true when the store was set back to an older state.
	Rewound bool
}

// WriteKind tells what a write is for.
type WriteKind int

// The kinds of writes.
const (
	Acquire WriteKind = iota
	Renew
	Release
)

// Outcome tells how a request failed.
type Outcome int

// The ways to fail. Only UnknownOutcome leaves open whether a write was made.
const (
	UnknownOutcome Outcome = iota
	Conflict
	Refused
)

// Input is something that happened. The types below implement it.
type Input interface{ input() }

type (
	// Tick says that time has passed.
	Tick struct{}
	// WatchUp says that from now on every change is delivered as Watched.
	WatchUp struct{}
	// WatchDown says that the watch broke.
	WatchDown struct{}
	// Watched delivers a state from the watch.
	Watched struct{ Obs Observation }
	// ReadDone answers the Read with the same ID.
	ReadDone struct {
		ID  uint64
		Obs Observation
	}
	// ReadFailed answers the Read with the same ID.
	ReadFailed struct{ ID uint64 }
	// WriteDone answers the Write with the same ID: it was made.
	WriteDone struct {
		ID  uint64
		Obs Observation
	}
	// WriteFailed answers the Write with the same ID.
	WriteFailed struct {
		ID      uint64
		Outcome Outcome
	}
	// EndTerm asks the leader to hand over. Preferred, if not empty, names
	// the candidate that should be next.
	EndTerm struct {
		Reason    Reason
		Preferred string
	}
	// WorkOver says that the work of the term has returned.
	WorkOver struct{}
	// Stand says whether this process may lead, as its health allows.
	Stand struct{ Yes bool }
	// EpochIs gives the number of the present term, to be written into the
	// record with the next renewal.
	EpochIs struct{ Epoch uint64 }
	// Stop asks for a clean end of candidacy.
	Stop struct{}
)

func (Tick) input()        {}
func (WatchUp) input()     {}
func (WatchDown) input()   {}
func (Watched) input()     {}
func (ReadDone) input()    {}
func (ReadFailed) input()  {}
func (WriteDone) input()   {}
func (WriteFailed) input() {}
func (EndTerm) input()     {}
func (WorkOver) input()    {}
func (Stand) input()       {}
func (EpochIs) input()     {}
func (Stop) input()        {}

// Action is something for the driver to do, in the order given. The types
// below implement it.
type Action interface{ action() }

type (
	// Read asks for the lock's present state.
	Read struct{ ID uint64 }
	// Write asks to replace Base by Record: to create the lock when Base does
	// not exist.
	Write struct {
		ID     uint64
		Kind   WriteKind
		Base   Observation
		Record Record
	}
	// Begin starts a term: its work may run now.
	Begin struct{ Term Term }
	// Drain tells the work of the term to end while the lock is still held.
	Drain struct{ Reason Reason }
	// End ends the term: nothing may be done in its name from now on. Obs is
	// the last state of the lock that named it.
	End struct {
		Reason Reason
		Obs    Observation
	}
	// Changed reports a new state of the lock.
	Changed struct{ View View }
	// Collision warns that another process writes under our identity.
	Collision struct{ Obs Observation }
	// Unsupported warns that the lock is managed by Kubernetes' coordinated
	// election, in which our candidates do not take part.
	Unsupported struct{ Strategy string }
	// Done ends the candidacy. Clean is false when the work of a term was
	// still running when its time to drain was over.
	Done struct{ Clean bool }
)

func (Read) action()        {}
func (Write) action()       {}
func (Begin) action()       {}
func (Drain) action()       {}
func (End) action()         {}
func (Changed) action()     {}
func (Collision) action()   {}
func (Unsupported) action() {}
func (Done) action()        {}
