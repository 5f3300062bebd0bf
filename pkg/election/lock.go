package election

import (
	"context"

	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

type (
	// Record is what a lock stores about its holder.
	Record = core.Record
	// Observation is the state of a lock at one moment of its history.
	Observation = core.Observation
)

var (
	// ErrConflict reports a write that was certainly not made, because the
	// lock is no longer in the state that the write was based on: somebody
	// else wrote, created or deleted it.
	ErrConflict = core.ErrConflict

	// ErrRefused reports a request that the store understood and refused for
	// good as it stands, such as a missing permission or an invalid record. A
	// write so refused was certainly not made. Wrap it with a text that names
	// the missing right (verb, resource, namespace) and who lacks it.
	ErrRefused = core.ErrRefused
)

// Lock is a record in a store that several candidates compete for. Its methods
// may be called from several goroutines at once. Each returns no later than
// its context ends.
//
// Any error that is neither ErrConflict nor ErrRefused leaves the outcome of a
// write unknown: it may or may not have been made, and may still be made.
type Lock interface {
	// String names the lock for people, such as "lease prod/scheduler".
	String() string

	// Read returns the present state from the store itself, not from a cache
	// that may lag. An absent lock is an Observation whose Exists is false,
	// and no error.
	Read(ctx context.Context) (Observation, error)

	// Create makes the lock with the record, if it is absent: ErrConflict when
	// it exists. It returns the state it made.
	Create(ctx context.Context, r Record) (Observation, error)

	// Update replaces the record if the lock is still in the state base, which
	// a method of this lock returned: ErrConflict when it is not, also when it
	// was deleted. It returns the state it made.
	Update(ctx context.Context, base Observation, r Record) (Observation, error)

	// Watch returns once it is certain to see every change that happens after
	// the return, and then sends each in order: deletions as observations
	// whose Exists is false, with the deletion's Revision. It may begin with
	// the present state. Changes may be merged, the newest never lost. The
	// channel is closed when the watch breaks or ctx ends, and may be for a
	// reader that is far behind.
	Watch(ctx context.Context) (<-chan Observation, error)
}
