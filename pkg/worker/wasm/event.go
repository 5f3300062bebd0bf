package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
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
	out := &bounded{most: m.opts.Memory}
	err := m.run(limited, t, bytes.NewReader(in), out)
	if out.full {
		return fmt.Errorf("running a module for an event: %w", ErrOutputLimit)
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(out.b.Bytes()) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := isCloudEvent(line); err != nil {
			m.logLine(ctx, line, err)
			continue
		}
		if err := t.Check(); err != nil {
			return fmt.Errorf("publishing an event of a module: %w", err)
		}
		if err := publish(ctx, line); err != nil {
			return fmt.Errorf("publishing an event of a module: %w", err)
		}
	}
	return nil
}

func (m *Module) logLine(ctx context.Context, line []byte, why error) {
	if m.opts.Logger == nil {
		return
	}
	const most = 1 << 10
	if line[0] != '{' {
		m.opts.Logger.InfoContext(ctx, "module output", "line", string(line[:min(len(line), most)]))
		return
	}
	m.opts.Logger.WarnContext(ctx, "module output is no CloudEvent", "line", string(line[:min(len(line), most)]), "error", why)
}

// isCloudEvent returns nil when the line is a valid CloudEvent in structured
// JSON.
func isCloudEvent(line []byte) error {
	var e event.Event
	if err := e.UnmarshalJSON(line); err != nil {
		return err
	}
	return e.Validate()
}

// bounded keeps what is written to it, up to a limit.
type bounded struct {
	b    bytes.Buffer
	most uint64
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if uint64(b.b.Len()+len(p)) > b.most { //nolint:gosec // lengths are not negative
		b.full = true
		return 0, ErrOutputLimit
	}
	return b.b.Write(p)
}
