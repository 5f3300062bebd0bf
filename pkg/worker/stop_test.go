package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/claim"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// A grant lapses, and its own timer tells the handler before the loop looks at
// the time. The stop is in the trace all the same.
func TestAStopThatTheLoopSeesLateIsTraced(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	facts := facts()
	w, err := New(natsenv.Start(t).Connect(t), Options{
		Election: facts.Election, Role: facts.Role, Identity: facts.Identity,
		Tracers: trace.NewTracerProvider(trace.WithSpanProcessor(recorder)),
		Handler: func(ctx context.Context, _ Term) error { <-ctx.Done(); return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.newRun()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	step := func(in claim.Input) {
		t.Helper()
		if over, err := r.step(in); over {
			t.Fatalf("over, %v", err)
		}
	}
	step(claim.Tick{}) // asks
	step(claim.Granted{Seq: 1, Epoch: facts.Epoch, Leader: facts.Leader, Valid: 2 * time.Second})
	for in := range r.inputs {
		if _, ended := in.(claim.HandlerEnded); ended {
			step(in)
			break
		}
	}
	var ended []string
	for _, span := range recorder.Ended() {
		ended = append(ended, span.Name())
	}
	if !slices.Equal(ended, []string{"worker start", "worker stop"}) {
		t.Errorf("spans %q", ended)
	}
}
