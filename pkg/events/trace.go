package events

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// The names of the W3C trace context, both as CloudEvents extensions and as
// NATS headers.
const (
	traceParentKey = "traceparent"
	traceStateKey  = "tracestate"
)

// traceContext returns the context in its canonical form, or nothing if the
// parent is malformed; a malformed state is left out alone. So W3C Trace
// Context wants it, and a transition matters more than its trace. Writing the
// context anew also keeps line breaks and the like out of headers.
func traceContext(parent, state string) (string, string) {
	if parent == "" {
		return "", ""
	}
	var w3c propagation.TraceContext
	ctx := w3c.Extract(context.Background(), propagation.MapCarrier{traceParentKey: parent, traceStateKey: state})
	out := propagation.MapCarrier{}
	w3c.Inject(ctx, out)
	return out[traceParentKey], out[traceStateKey]
}
