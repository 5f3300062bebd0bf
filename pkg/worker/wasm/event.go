package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/lines"
)

// ErrTimeLimit is matched by the error of a run for an event that took longer
// than its limit.
var ErrTimeLimit = errors.New("the time limit of the run is over")

// ErrOutputLimit is matched by the error of a run for an event that wrote more
// than the memory limit to its standard output.
var ErrOutputLimit = errors.New("the output is larger than the memory limit")

// HandleEvent runs the module once, with a CloudEvent in structured JSON on
// its standard input. When it has exited with code 0, each line of its standard
// output that is a CloudEvent in structured JSON is given to publish, in order
// and byte for byte, as long as the term is valid and publish returns nil. Any
// other line is logged.
//
// A run that fails, is stopped or takes too long publishes nothing. As a run
// whose publishing failed half-way is likely to be made again for the same
// event, the module should derive the ids of its events from the one it was
// given, so that those published twice can be told.
//
// It returns what Handle returns, an error that matches [ErrTimeLimit] or
// [ErrOutputLimit], or that of publish.
func (m *Module) HandleEvent(ctx context.Context, t worker.Term, in []byte, publish func(ctx context.Context, event []byte) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, m.opts.Time, ErrTimeLimit)
	defer cancel()
	out := &lines.Buffer{Most: m.opts.Memory}
	err := m.run(limited, t, bytes.NewReader(in), out)
	if out.Full {
		return fmt.Errorf("running a module for an event: %w", ErrOutputLimit)
	}
	if err != nil {
		return err
	}
	return out.Publish(ctx, t, m.opts.Logger, publish)
}
