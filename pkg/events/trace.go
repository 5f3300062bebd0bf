package events

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The names of the W3C trace context, both as CloudEvents extensions and as
// NATS headers.
const (
	traceParentKey = "traceparent"
	traceStateKey  = "tracestate"
)

// traceContext returns the context if it is well-formed, and nothing otherwise:
// W3C Trace Context has a receiver go on without one then, and a transition
// matters more than its trace. A state without a parent means nothing, and a
// broken state does not spoil its parent.
func traceContext(parent, state string) (string, string) {
	carrier := propagation.MapCarrier{traceParentKey: parent}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return "", ""
	}
	if _, err := trace.ParseTraceState(state); err != nil {
		return parent, ""
	}
	return parent, state
}
