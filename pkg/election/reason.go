package election

import "github.com/leaderbridge/leaderbridge/pkg/election/internal/core"

// Reason says why a term ended.
type Reason string

// The reasons for the end of a term of this process.
const (
	// Released: the process was asked to stop and gave the lock back.
	Released Reason = "released"
	// RenewDeadline: the lock could not be renewed in time.
	RenewDeadline Reason = "renew-deadline"
	// Superseded: another holder stands in the record.
	Superseded Reason = "superseded"
	// Deleted: the record was deleted and could not be made again.
	Deleted Reason = "deleted"
	// SteppedDown: the leader handed over because it was asked to, or because
	// its work returned.
	SteppedDown Reason = "step-down"
	// Unhealthy: the process was told that it may not stand any more.
	Unhealthy Reason = "unhealthy"
)

func reasonOf(r core.Reason) Reason {
	switch r {
	case core.Released:
		return Released
	case core.RenewDeadline:
		return RenewDeadline
	case core.Superseded:
		return Superseded
	case core.Deleted:
		return Deleted
	case core.Unhealthy:
		return Unhealthy
	case core.StepDown, core.WorkEnded, core.NoReason:
	}
	return SteppedDown
}
