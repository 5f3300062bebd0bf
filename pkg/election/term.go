package election

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// ErrTermOver reports that nothing may be done in the term's name any more.
var ErrTermOver = errors.New("the term is over")

// EndError is the cause of a term's cancelled context.
type EndError struct {
	Reason Reason
	// Held is true while the lock is still held and renewed for the work to
	// finish. False means that the term is over.
	Held bool
}

// Error describes the end.
func (e *EndError) Error() string {
	if e.Held {
		return fmt.Sprintf("the term is about to end (%s)", e.Reason)
	}
	return fmt.Sprintf("the term is over (%s)", e.Reason)
}

// Unwrap makes errors.Is(err, ErrTermOver) true once the term is over.
func (e *EndError) Unwrap() error {
	if e.Held {
		return nil
	}
	return ErrTermOver
}

// PanicError is what Run returns when Lead panicked. The lock was released.
type PanicError struct {
	Value any
	Stack []byte
}

// Error shows the value and the stack, as an uncaught panic would.
func (e *PanicError) Error() string {
	return fmt.Sprintf("the work of the term panicked: %v\n%s", e.Value, e.Stack)
}

// Term is one uninterrupted reign of this process. Its methods may be called
// from any goroutine.
type Term struct {
	info     core.Term
	deadline atomic.Int64
	over     atomic.Bool
	epoch    atomic.Uint64
	ended    <-chan struct{}
}

// Acquired is the acquire time that the record names the term by.
func (t *Term) Acquired() time.Time { return t.info.Acquired }

// UID is the lock's unique id at the beginning of the term.
func (t *Term) UID() string { return t.info.UID }

// Clean reports whether the former holder is known to have released the lock
// or to have let its time run out. When it is false, a holder whose record was
// deleted or overwritten may be at work for one lease duration after the
// beginning of this term.
func (t *Term) Clean() bool { return t.info.Clean }

// Deadline is the moment until which the term is valid for certain. It moves
// on with each renewal.
func (t *Term) Deadline() boottime.Instant { return boottime.Instant(t.deadline.Load()) }

// Check returns nil while the term is certainly valid, and ErrTermOver else. It
// reads the clock, so that it is right also in a process that was paused: call
// it before every step that must not be done by two leaders.
func (t *Term) Check() error {
	if t.over.Load() || boottime.Now() >= t.Deadline() {
		return ErrTermOver
	}
	return nil
}

// SetEpoch gives the number that the log assigned to the term. It is written
// into the record with the next renewal. It does not wait.
func (t *Term) SetEpoch(epoch uint64) { t.epoch.Store(epoch) }

// Ended is closed when the term is over.
func (t *Term) Ended() <-chan struct{} { return t.ended }
