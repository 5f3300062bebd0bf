package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"
)

// Format is how a line is written.
type Format string

const (
	// Text is key=value, for people.
	Text Format = "text"
	// JSON is one object a line, for log stores.
	JSON Format = "json"
)

// Options configure a logger.
type Options struct {
	// Format is Text when empty.
	Format Format
	// Level is the lowest level that is written.
	Level slog.Leveler
}

// New returns a logger that writes to w. It may be used by several goroutines
// at once; each line is one call of w.Write.
func New(w io.Writer, o Options) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: o.Level}
	var h slog.Handler
	switch o.Format {
	case Text, "":
		h = slog.NewTextHandler(w, options)
	case JSON:
		h = slog.NewJSONHandler(w, options)
	default:
		return nil, fmt.Errorf("log format %q: want %s or %s", string(o.Format), Text, JSON)
	}
	return slog.New(traced{fold(h)}), nil
}

// TakeOver sends what libraries log to logger: klog, with which client-go
// speaks, the standard log package, and slog's default.
func TakeOver(logger *slog.Logger) {
	slog.SetDefault(logger)
	klog.SetSlogLogger(logger.With("component", "client-go"))
}

// traced adds the ids of the span in the context.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(
			slog.String(traceIDKey, span.TraceID().String()),
			slog.String(spanIDKey, span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }

// The names that OpenTelemetry gives to the ids in logs of other formats.
const (
	traceIDKey = "trace_id"
	spanIDKey  = "span_id"
)
