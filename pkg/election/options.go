package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The defaults are client-go's, which most elections run with.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// jitterFactor is client-go's (leaderelection.go): a period is stretched by up
// to this factor, so a deadline must be longer than the stretched period.
const jitterFactor = 1.2

// ErrInvalid is wrapped by every error of Options.Validate.
var ErrInvalid = errors.New("invalid election options")

// Options says how to stand for an election. The zero value, with Default
// applied, uses client-go's durations and a unique identity.
type Options struct {
	// Identity names this process in the record. It must differ from that of
	// every other candidate; DefaultIdentity makes one that does, also across
	// restarts.
	Identity string

	// LeaseDuration is how long the record protects its holder: a crashed
	// leader is replaced this long after its last renewal. Whole seconds, at
	// least one. Raising it tolerates longer outages of the store; lowering
	// it replaces a crashed leader earlier and costs more renewals.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader goes on without a successful renewal,
	// counted from the moment that the last one was sent. What is left of
	// LeaseDuration after it is the time that work has to stop.
	RenewDeadline time.Duration
	// RetryPeriod is the time between renewals, and between tries.
	RetryPeriod time.Duration
	// RequestTimeout bounds one request to the store. Default: half the
	// RenewDeadline and at least a second, so that one hung request does not
	// cost the term (kubernetes/kubernetes#95319). Raise it where round trips
	// take seconds.
	RequestTimeout time.Duration
	// DrainTimeout bounds how long a term goes on, renewed, after it was asked
	// to end, so that its work can finish. Default and greatest value: the
	// LeaseDuration.
	DrainTimeout time.Duration

	// Health, if not nil, says when the process may stand at all.
	Health *Health

	// Lead is the work of a term. It is called in a goroutine of its own when
	// the term begins, and never twice at once. Its context is cancelled when
	// the work must end; context.Cause gives an *EndError that says why and
	// whether the lock is still held. The lock is released only after Lead has
	// returned. A Lead that returns by itself ends the term; one that panics
	// ends the candidacy, and Run returns a *PanicError. Nil means that there
	// is no work but to hold the lock.
	Lead func(ctx context.Context, term *Term) error

	// Observe is told every state of the election, of whoever's term, in
	// order, each once; of an own term when Elector.Term returns it. It is
	// called from the election's own goroutine and must not block.
	Observe func(State)

	// Hooks are for measuring. Each may be nil.
	Hooks Hooks

	// Logger is told what happens. Nil means silence.
	Logger *slog.Logger
}

// Hooks tell of what is no state of the election. They must not block.
type Hooks struct {
	// Wrote is told of each write that takes or releases the lock, from a
	// goroutine of its own. Renewals are left out. The error is nil,
	// ErrConflict when somebody else was first, or another.
	Wrote func(w Write)
	// Heard is called from the election's goroutine whenever the watch brings
	// something, be it a renewal.
	Heard func()
}

// Write is a write that takes or releases the lock.
type Write struct {
	Release    bool
	Start, End time.Time
	Err        error
}

// DefaultIdentity returns the host's name with a suffix that no other process
// has, so that a restarted process is a new candidate.
func DefaultIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host name for the identity: %w", err)
	}
	return host + "_" + uuid.NewString(), nil
}

// Default fills in what was left out, except the identity.
func (o Options) Default() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.LeaseDuration, DefaultLeaseDuration)
	set(&o.RenewDeadline, DefaultRenewDeadline)
	set(&o.RetryPeriod, DefaultRetryPeriod)
	set(&o.RequestTimeout, max(time.Second, o.RenewDeadline/2))
	set(&o.DrainTimeout, o.LeaseDuration)
	if o.Health != nil {
		h := o.Health.withDefaults()
		o.Health = &h
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate checks the options after Default. Every error wraps ErrInvalid and
// fits on one line.
func (o Options) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Identity == "":
		return fail("the identity is empty")
	case strings.TrimSpace(o.Identity) == "":
		return fail("the identity %q is blank", o.Identity)
	case o.LeaseDuration < time.Second:
		return fail("lease duration %s is below one second: a Lease stores whole seconds", o.LeaseDuration)
	case o.LeaseDuration%time.Second != 0:
		return fail("lease duration %s is not a whole number of seconds: a Lease would store %s", o.LeaseDuration, o.LeaseDuration.Truncate(time.Second))
	case o.RenewDeadline <= 0 || o.RetryPeriod <= 0 || o.LeaseDuration <= o.RenewDeadline ||
		float64(o.RenewDeadline) <= jitterFactor*float64(o.RetryPeriod):
		return fail("lease duration %s > renew deadline %s > 1.2 x retry period %s > 0 must hold", o.LeaseDuration, o.RenewDeadline, o.RetryPeriod)
	case o.RequestTimeout <= 0 || o.RequestTimeout > o.RenewDeadline:
		return fail("request timeout %s must be above 0 and at most the renew deadline %s", o.RequestTimeout, o.RenewDeadline)
	case o.DrainTimeout <= 0 || o.DrainTimeout > o.LeaseDuration:
		return fail("drain timeout %s must be above 0 and at most the lease duration %s", o.DrainTimeout, o.LeaseDuration)
	}
	if o.Health != nil {
		if err := o.Health.validate(); err != nil {
			return fail("%s", err)
		}
	}
	return nil
}
