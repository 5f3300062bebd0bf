package lines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// ErrFull is matched by the error of a [Buffer] whose limit is reached.
var ErrFull = errors.New("the output is larger than its limit")

// Buffer keeps what is written to it, up to a limit.
type Buffer struct {
	// Most is the limit in bytes.
	Most uint64
	// Full is true once something was refused.
	Full bool

	b bytes.Buffer
}

// Write refuses, as a whole, what exceeds the limit.
func (b *Buffer) Write(p []byte) (int, error) {
	if uint64(b.b.Len()+len(p)) > b.Most { //nolint:gosec // lengths are not negative
		b.Full = true
		return 0, ErrFull
	}
	return b.b.Write(p)
}

// Publish gives each line that is a CloudEvent in structured JSON to publish,
// in order and byte for byte, as long as the term is valid and publish returns
// nil. Any other line goes to the log, which may be nil.
func (b *Buffer) Publish(ctx context.Context, t worker.Term, log *slog.Logger, publish func(ctx context.Context, event []byte) error) error {
	for line := range bytes.Lines(b.b.Bytes()) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := isCloudEvent(line); err != nil {
			report(ctx, log, line, err)
			continue
		}
		if err := t.Check(); err != nil {
			return fmt.Errorf("publishing an event: %w", err)
		}
		if err := publish(ctx, line); err != nil {
			return fmt.Errorf("publishing an event: %w", err)
		}
	}
	return nil
}

func report(ctx context.Context, log *slog.Logger, line []byte, why error) {
	if log == nil {
		return
	}
	const most = 1 << 10
	text := string(line[:min(len(line), most)])
	if line[0] != '{' {
		log.InfoContext(ctx, "output", "line", text)
		return
	}
	log.WarnContext(ctx, "output is no CloudEvent", "line", text, "error", why)
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
