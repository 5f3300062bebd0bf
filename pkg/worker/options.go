package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Options say what a [Worker] does. Election, Role (or Follow) and Handler must
// be set.
type Options struct {
	// Election is the election whose leader gives the grant.
	Election events.Election
	// Role is what the worker does, a DNS label. One election can carry many
	// roles, each held by one worker at a time.
	Role string
	// Identity names the worker for people; the host's name and a unique
	// suffix when empty. Two workers may share it and are told apart
	// nevertheless.
	Identity string

	// Handler is the work. It is wrapped in Restart.
	Handler Handler
	// Restart says how a handler that fails is started again.
	Restart Restart

	// Follow is the identity of a holder to follow instead of asking for
	// grants: the handler runs while the log says that this holder leads. It
	// is for elections that other software stands in and "leaderbridge watch"
	// reports, where nobody gives grants. The promise is weaker: the work may
	// run on after the holder has lost the election, for as long as its Lease
	// takes to lapse and the report to arrive, and nothing keeps two workers
	// that follow the same holder apart. Run one beside each candidate, as a
	// sidecar, and guard what it writes to with the epoch.
	Follow string

	// Log is where the log is. ReadOnly is set in any case: a worker never
	// creates or verifies a stream.
	Log events.Options
	// Logger may be nil.
	Logger *slog.Logger

	// Tracers makes the spans of what the worker does in a failover, in the
	// trace of that failover; nil for none. For stops of which no event tells
	// it must use an id generator that honours derived ids, as that of
	// "leaderbridge worker" does; otherwise those begin traces of their own.
	Tracers trace.TracerProvider
	// TraceLinks makes spans link to the failover's trace and not be a part of
	// it. That fits very many workers.
	TraceLinks bool
}

func (o Options) withDefaults() (Options, error) {
	if err := o.Election.Validate(); err != nil {
		return o, err
	}
	if o.Follow != "" && o.Role == "" {
		o.Role = "follower"
	}
	if err := events.ValidateRole(o.Role); err != nil {
		return o, err
	}
	if o.Handler == nil {
		return o, errors.New("there is no handler")
	}
	if o.Identity == "" {
		var err error
		if o.Identity, err = DefaultIdentity(); err != nil {
			return o, err
		}
	}
	if o.Log.Prefix == "" {
		o.Log.Prefix = events.DefaultPrefix
	}
	o.Log.ReadOnly = true
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Restart.Logger == nil {
		o.Restart.Logger = o.Logger
	}
	o.Handler = o.Restart.Handler(o.Handler)
	return o, nil
}

// DefaultIdentity returns the host's name with a unique suffix, another one in
// each call.
func DefaultIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host name for the identity: %w", err)
	}
	return host + "_" + nuid.Next(), nil
}
