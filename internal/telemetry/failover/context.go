package failover

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// SpanContext returns the context of the span that appended an event, which
// events.Decode took from the message's header or, failing that, from the
// CloudEvents extension. It is not valid for an event without one.
//
// The format is W3C Trace Context whatever OTEL_PROPAGATORS says: it is part of
// the event's contract.
func SpanContext(ctx context.Context, ev events.Event) trace.SpanContext {
	if ev.TraceParent == "" {
		return trace.SpanContext{}
	}
	// The propagator leaves a span in the context if the event has none.
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, eventCarrier{&ev}))
}

// eventCarrier lets the W3C propagator read and write an event.
type eventCarrier struct{ ev *events.Event }

const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

func (c eventCarrier) Get(key string) string {
	switch key {
	case traceParent:
		return c.ev.TraceParent
	case traceState:
		return c.ev.TraceState
	}
	return ""
}

func (c eventCarrier) Set(key, value string) {
	switch key {
	case traceParent:
		c.ev.TraceParent = value
	case traceState:
		c.ev.TraceState = value
	}
}

func (c eventCarrier) Keys() []string { return []string{traceParent, traceState} }
