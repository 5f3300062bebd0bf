package instruments

import (
	"slices"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Scope is the instrumentation scope of leaderbridge's metrics.
const Scope = "github.com/leaderbridge/leaderbridge"

// Attribute keys. Those of an election have a prefix, because Prometheus sets
// "namespace" and "pod" itself, to those of the scraped process.
const (
	clusterKey    = "election.cluster"
	namespaceKey  = "election.namespace"
	leaseKey      = "election.lease"
	identityKey   = "election.identity"
	transitionKey = "transition"
	reasonKey     = "reason"
	outcomeKey    = "outcome"
	partKey       = "part"
	roleKey       = "worker.role"
)

// Part is a part of the process that can fail.
type Part string

// The parts.
const (
	// PartElection: requests to the lock.
	PartElection Part = "election"
	// PartWatch: the watch on the lock.
	PartWatch Part = "watch"
	// PartLog: reading and appending to the log.
	PartLog Part = "log"
	// PartGrants: answering workers.
	PartGrants Part = "grants"
	// PartTelemetry: exporting traces and metrics.
	PartTelemetry Part = "telemetry"
)

var parts = []Part{PartElection, PartWatch, PartLog, PartGrants, PartTelemetry}

// GrantOutcome is what became of a worker's request.
type GrantOutcome string

// The outcomes.
const (
	GrantGiven    GrantOutcome = "given"
	GrantRefused  GrantOutcome = "refused"
	GrantReturned GrantOutcome = "returned"
	GrantLapsed   GrantOutcome = "lapsed"
)

var grantOutcomes = []GrantOutcome{GrantGiven, GrantRefused, GrantReturned, GrantLapsed}

// The outcomes of an append.
const (
	outcomeOK     = "ok"
	outcomeBehind = "behind"
	outcomeError  = "error"
)

// reasons are the values of the reason label. A reason that is not in the list
// is counted as otherReason, so that no text from outside becomes a series.
var reasons = map[events.Transition][]events.Reason{
	events.BecameLeader:   starts,
	events.NewLeader:      starts,
	events.StoppedLeading: ends,
}

var (
	starts = []events.Reason{events.Acquired, events.Resumed, events.TakenOver}
	ends   = []events.Reason{events.Released, events.Expired, events.RenewDeadline,
		events.Superseded, events.Deleted, events.StepDown, events.Unhealthy}
)

const otherReason events.Reason = "other"

// buckets reach from a fast append (a millisecond) over a clean hand-over (tens
// of milliseconds) and a crash (a lease duration, 15 s by default) to an outage
// of minutes. In seconds.
var buckets = []float64{
	0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
	1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300, 600,
}

// Buckets returns the upper bounds of the buckets of every duration, in
// seconds.
func Buckets() []float64 { return slices.Clone(buckets) }
