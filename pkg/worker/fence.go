package worker

import (
	"fmt"
	"sync/atomic"
)

// Fence keeps late writers out: it refuses an epoch below the greatest one it
// has seen. It is for the receiving side, one Fence for each resource that an
// election (and role) guards, in a program that is itself the only way to the
// resource. Storage that has conditional writes should keep the epoch beside
// the data instead and compare it in the same step; docs/workers.md shows how
// with SQL and with a NATS key-value bucket.
//
// The zero Fence has seen nothing and refuses only epoch 0, which no term has.
// It forgets when the program ends: call Check with the epoch last stored
// before serving. Its method is safe for concurrent use.
//
// A Fence tells terms of the leader apart. Two workers that hold a role one
// after the other within one term have the same epoch; those are kept apart by
// the deadline alone.
type Fence struct{ seen atomic.Uint64 }

// Check returns nil and remembers the epoch when it is at least as great as
// every epoch before, and a *[StaleEpochError] otherwise.
func (f *Fence) Check(epoch uint64) error {
	for {
		seen := f.seen.Load()
		if epoch < max(seen, 1) {
			return &StaleEpochError{Epoch: epoch, Seen: seen}
		}
		if epoch == seen || f.seen.CompareAndSwap(seen, epoch) {
			return nil
		}
	}
}

// StaleEpochError reports a request made under a term that has been followed
// by another. It must not be tried again.
type StaleEpochError struct {
	// Epoch is that of the request, Seen the greatest one before it.
	Epoch, Seen uint64
}

func (e *StaleEpochError) Error() string {
	if e.Epoch == 0 {
		return "the request carries no epoch"
	}
	return fmt.Sprintf("the request's epoch %d is over: epoch %d has acted", e.Epoch, e.Seen)
}
