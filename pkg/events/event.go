package events

import "time"

// Election names one election: a Lease, or a key of a NATS lock bucket, in a
// cluster. The three parts follow the rules for Kubernetes names.
type Election struct {
	Cluster   string
	Namespace string
	Lease     string
}

// Transition is the kind of an event.
type Transition string

// The three transitions. Within an election they come in this order:
// stopped-leading(n), became-leader(n+1), new-leader(n+1).
const (
	BecameLeader   Transition = "became-leader"
	StoppedLeading Transition = "stopped-leading"
	NewLeader      Transition = "new-leader"
)

// Reason says why a term began or ended.
type Reason string

// Reasons for a start.
const (
	// Acquired: the election was free.
	Acquired Reason = "acquired"
	// Resumed: a holder that was reported as expired renews again.
	Resumed Reason = "resumed"
	// TakenOver: the election was held by another whose lease had ended, or
	// whose record was overwritten.
	TakenOver Reason = "taken-over"
)

// Reasons for an end.
const (
	// Released: the leader gave the election back on a clean stop.
	Released Reason = "released"
	// Expired: the holder did not renew for the whole lease duration.
	Expired Reason = "expired"
	// RenewDeadline: the leader could not renew in time and stopped itself.
	RenewDeadline Reason = "renew-deadline"
	// Superseded: another holder stands in the record, and no other end of the
	// former term was seen.
	Superseded Reason = "superseded"
	// Deleted: the record was deleted under its holder.
	Deleted Reason = "deleted"
	// StepDown: the leader handed over because it was asked to.
	StepDown Reason = "step-down"
	// Unhealthy: the leader handed over because its health check failed.
	Unhealthy Reason = "unhealthy"
)

// Perspective tells who reports an event.
type Perspective string

// Who may report.
const (
	// ByLeader: the process that the event is about.
	ByLeader Perspective = "leader"
	// ByWitness: another candidate of the same election.
	ByWitness Perspective = "witness"
	// ByWatcher: a bridge that only observes.
	ByWatcher Perspective = "watcher"
)

// Event is one transition of one election. Its zero or nil optional fields are
// those the lock did not have: they are left out of the message.
type Event struct {
	Election   Election
	Transition Transition
	// UID is the lock's own unique id at the time of the event.
	UID string
	// Epoch is the number of the term that began or ended: 1 to MaxEpoch.
	Epoch uint64
	// Time is when the transition happened, as well as the reporter knows.
	Time time.Time

	// Leader is who leads after the event; empty for nobody.
	Leader string
	// PreviousLeader is who led before it; empty for nobody or unknown.
	PreviousLeader string
	Reason         Reason
	// Missed counts the terms between this event and the one before that are
	// known to have been, but not by whom.
	Missed uint64

	LeaseTransitions     *int
	LeaseDurationSeconds *int
	AcquireTime          time.Time
	RenewTime            time.Time
	// LeaderlessMillis is how long nobody led before this start.
	LeaderlessMillis *int64

	Reporter    string
	Perspective Perspective
	// Revision is the revision of the lock's state that the event speaks of;
	// it orders reports of replicas that see the lock at different speeds.
	Revision uint64

	// TraceParent and TraceState are the W3C trace context of the append.
	TraceParent string
	TraceState  string
}

// MaxEpoch is the greatest epoch: CloudEvents integers have 32 bits.
const MaxEpoch = 1<<31 - 1
