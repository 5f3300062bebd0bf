package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nuid"

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
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("find the host name for the identity: %w", err)
		}
		o.Identity = host + "_" + nuid.Next()
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
