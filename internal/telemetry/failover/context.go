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
func SpanContext(ev events.Event) trace.SpanContext {
	if ev.TraceParent == "" {
		return trace.SpanContext{}
	}
	carrier := eventCarrier{&ev}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// setSpanContext writes a span's context into an event.
func setSpanContext(ev *events.Event, sc trace.SpanContext) {
	ctx := trace.ContextWithSpanContext(context.Background(), sc)
	propagation.TraceContext{}.Inject(ctx, eventCarrier{ev})
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
