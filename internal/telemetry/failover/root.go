package failover

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// rootName is the name of the root span: the time without a leader.
const rootName = "election failover"

// startRoot starts the root span of a failover and returns a context with it.
// Only the process whose became-leader entered the log ends the span and so
// exports it. Everybody else makes its spans children of it, and drops it.
func startRoot(ctx context.Context, tracer trace.Tracer, source string, epoch uint64, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	options = append(options, trace.WithNewRoot(), trace.WithAttributes(number(epochKey, epoch)))
	if epoch > 1 {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: rootContext(source, epoch-1)}))
	}
	_, span := tracer.Start(context.WithValue(ctx, termKey{}, term{source, epoch}), rootName, options...) //nolint:spancheck // see above
	// Not the context that Start returns: it would give the derived ids to the
	// next root span too.
	return trace.ContextWithSpan(ctx, span), span //nolint:spancheck // see above
}

// rootContext names the root span of a failover, whoever exports it.
func rootContext(source string, epoch uint64) trace.SpanContext {
	traceID, spanID := derive(source, epoch)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, Remote: true})
}
