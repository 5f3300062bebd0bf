package events_test

import (
	"context"
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"go.opentelemetry.io/otel/propagation"
	"pgregory.net/rapid"
)

// What we make of a trace context is what OpenTelemetry's own propagator makes
// of it, well-formed or not.
func TestTraceContextIsOpenTelemetrys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent := rapid.OneOf(
			rapid.StringMatching(`0[01]-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]`),
			rapid.StringMatching(`(00|01|fe|ff|0g)-(0{32}|[0-9a-fA-F]{31,32})-(0{16}|[0-9a-f]{16})-(0[0-9]|ff|f)(-.{0,3})?`),
		).Draw(t, "parent")
		state := rapid.OneOf(
			rapid.StringMatching(`([a-z][a-z0-9]{0,3}=[!-+]{0,3},? ?){0,3}`),
			rapid.String(),
		).Draw(t, "state")

		want := propagation.MapCarrier{}
		var w3c propagation.TraceContext
		w3c.Inject(w3c.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent, "tracestate": state}), want)

		e := example()
		e.TraceParent, e.TraceState = parent, state
		header, _, err := events.Encode(e, events.Structured)
		if err != nil {
			t.Fatal(err)
		}
		if got := header.Get("traceparent"); got != want["traceparent"] {
			t.Fatalf("traceparent is %q, want %q", got, want["traceparent"])
		}
		if got := header.Get("tracestate"); got != want["tracestate"] {
			t.Fatalf("tracestate is %q, want %q", got, want["tracestate"])
		}
	})
}
