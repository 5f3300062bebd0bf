package e2e

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/otelenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// tracedReplica starts a candidate that exports to the receiver.
func (s *site) tracedReplica(id string, receiver *otelenv.Receiver, args ...string) *procenv.Process {
	s.t.Helper()
	args = append([]string{
		"run", "--lease-lock-name", "scheduler", "--kubeconfig", s.kubeconfig, "--nats-url", s.nats.URL(), "--id", id,
		"--lease-duration", "8s", "--renew-deadline", "6s", "--retry-period", "1s", "--http-addr", "",
	}, args...)
	return procenv.Start(s.t, id, receiver.Env("grpc"), args...)
}

// failoverTrace waits until the failover to a term has arrived: every span that
// want lists as "process: span", below one root that begins no trace of its own.
func (s *site) failoverTrace(receiver *otelenv.Receiver, epoch uint64, want ...string) {
	s.t.Helper()
	source := events.Election{Cluster: "default", Namespace: s.namespace, Lease: "scheduler"}.Source()
	id := failover.TraceID(source, epoch).String()
	var spans []otelenv.Span
	testenv.Eventually(s.t, 20*time.Second, func() error {
		spans = nil
		var have []string
		for _, span := range receiver.Spans() {
			if span.TraceID == id {
				spans = append(spans, span)
				have = append(have, describeSpan(span))
			}
		}
		for _, w := range want {
			if !slices.Contains(have, w) {
				return fmt.Errorf("the trace of term %d has no %q, but %q", epoch, w, have)
			}
		}
		return nil
	})
	ids := map[string]bool{}
	roots := 0
	for _, span := range spans {
		ids[span.SpanID] = true
		if span.ParentID == "" {
			roots++
		}
	}
	if roots != 1 {
		s.t.Errorf("the trace of term %d has %d roots", epoch, roots)
	}
	for _, span := range spans {
		if span.ParentID != "" && !ids[span.ParentID] {
			s.t.Errorf("%s hangs on a span that nobody exported", describeSpan(span))
		}
		if length := span.End.Sub(span.Start); length < 0 || length > 15*time.Second {
			s.t.Errorf("%s is %s long", describeSpan(span), length)
		}
	}
}

func describeSpan(s otelenv.Span) string {
	name := strings.ReplaceAll(s.Name, "leaderbridge.event.{cluster}.{namespace}.{lease}.", "")
	if outcome := s.Attributes["election.outcome"]; outcome != "" {
		name += " (" + outcome + ")"
	}
	return s.Resource["service.instance.id"] + ": " + name
}

// Three processes, a real API server, NATS and OTLP endpoint: a step-down is one
// trace, and so is a SIGKILL.
func TestFailoverIsOneTrace(t *testing.T) {
	receiver := otelenv.Start(t)
	s := newSite(t)

	// A program that knows nothing of us continues the trace from the header.
	plain, err := s.nc.SubscribeSync("leaderbridge.event.>")
	if err != nil {
		t.Fatal(err)
	}

	a := s.tracedReplica("a", receiver)
	s.await("a", became(1))
	b := s.tracedReplica("b", receiver)
	waitFor(t, b, "a")
	c := s.tracedReplica("c", receiver)
	waitFor(t, c, "a")

	p := procenv.Start(t, "step-down", nil, "step-down", "--nats-url", s.nats.URL(), "--timeout", "10s", "--to", "b", s.namespace+"/scheduler")
	if code := p.Wait(20 * time.Second); code != 0 {
		t.Fatalf("step-down: exit code %d: %s", code, p.Stderr())
	}
	// A busy machine may have had another change of leader before.
	ended, _ := s.await("the step-down", func(e events.Event) bool { return e.Reason == events.StepDown })
	s.await("b", became(ended.Epoch+1))
	from := ended.PreviousLeader
	s.failoverTrace(receiver, ended.Epoch+1, from+": election drain", from+": publish stopped-leading", from+": election release",
		"b: election acquire", "b: publish became-leader", "b: publish new-leader", "b: election failover")

	b.Signal(syscall.SIGKILL)
	killed, _ := s.await("the end of b", func(e events.Event) bool {
		return e.Transition == events.StoppedLeading && e.Epoch == ended.Epoch+1
	})
	next, _ := s.await("the next", became(killed.Epoch+1))
	s.failoverTrace(receiver, killed.Epoch+1, next.Leader+": election observe (lapsed)", next.Leader+": election acquire",
		next.Leader+": publish became-leader", next.Leader+": publish new-leader", next.Leader+": election failover")

	// A clean stop: the last leader's own spans are there although it is gone.
	last := map[string]*procenv.Process{"a": a, "c": c}[next.Leader]
	last.Signal(syscall.SIGTERM)
	if code := last.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, last.Stderr())
	}
	s.await("the last", became(next.Epoch+1))
	s.failoverTrace(receiver, next.Epoch+1, next.Leader+": publish stopped-leading", next.Leader+": election release")

	s.continues(plain)
}

// continues checks that each message of the log has a context in its header, that
// it is the one of the event, and that a span below it joins the failover.
func (s *site) continues(plain *nats.Subscription) {
	s.t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	source := events.Election{Cluster: "default", Namespace: s.namespace, Lease: "scheduler"}.Source()
	for i := range s.events() {
		msg, err := plain.NextMsg(5 * time.Second)
		if err != nil {
			s.t.Fatal(err)
		}
		ev, err := events.Decode(msg.Header, msg.Data)
		if err != nil {
			s.t.Fatal(err)
		}
		ctx := propagation.TraceContext{}.Extract(s.t.Context(), propagation.MapCarrier{"traceparent": msg.Header.Get("traceparent")})
		_, span := provider.Tracer("plain").Start(ctx, "notify people", trace.WithSpanKind(trace.SpanKindConsumer))
		span.End()
		epoch := ev.Epoch
		if ev.Transition == events.StoppedLeading {
			epoch++
		}
		if got := recorder.Ended()[i].SpanContext().TraceID(); got != failover.TraceID(source, epoch) {
			s.t.Errorf("%s: trace %s", ev.ID(), got)
		}
		if string(msg.Data) == "" || !strings.Contains(string(msg.Data), msg.Header.Get("traceparent")) {
			s.t.Errorf("%s: header %q is not the extension's", ev.ID(), msg.Header.Get("traceparent"))
		}
	}
}

// A collector that hangs delays neither a hand-over nor, beyond its bound, the
// exit, and is no error.
func TestHangingCollector(t *testing.T) {
	s := newSite(t)
	// Connections are accepted by the kernel, and never answered.
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + hole.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=50"}
	start := func(id string) *procenv.Process {
		return procenv.Start(t, id, env, "run", "--lease-lock-name", "scheduler", "--kubeconfig", s.kubeconfig,
			"--nats-url", s.nats.URL(), "--id", id, "--http-addr", "")
	}
	a := start("a")
	s.await("a", became(1))
	b := start("b")
	waitFor(t, b, "a")
	asked := time.Now()
	a.Signal(syscall.SIGTERM)
	_, led := s.await("b", became(2))
	if code := a.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, a.Stderr())
	}
	gone := time.Now()
	// The lease is 15 s long: far less is a hand-over, however slow the machine.
	if took := led.Sub(asked); took > 5*time.Second {
		t.Errorf("b led %s after a was asked to stop", took)
	}
	if took := gone.Sub(asked); took > 10*time.Second {
		t.Errorf("a took %s to stop", took)
	}
	if led.After(gone) {
		t.Error("a flushed its traces before it released the election")
	}
	if n := strings.Count(a.Stderr(), "level=WARN"); n > 2 {
		t.Errorf("%d warnings:\n%s", n, a.Stderr())
	}
}
