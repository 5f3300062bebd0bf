package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/otelenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// What workers do in a failover is in its trace: after a hand-over, and when the
// leader died and nobody told them.
func TestWorkersAreInTheTraceOfTheFailover(t *testing.T) {
	receiver := otelenv.Start(t)
	w := newWorkshop(t)
	c := newCopies(t, w)
	s := &site{t: t, namespace: "prod"}
	candidate := func(id string) *procenv.Process {
		return procenv.Start(t, id, receiver.Env("grpc"), "run", "--lock", "nats", "--lease-lock-name", "scheduler", "--lease-lock-namespace", "prod",
			"--nats-url", w.nats.URL(), "--id", id, "--lease-duration", "6s", "--renew-deadline", "4s", "--retry-period", "1s", "--http-addr", "")
	}
	worker := func(id string, args ...string) *procenv.Process {
		return procenv.Start(t, id, receiver.Env("grpc"), append([]string{
			"worker", "--election", "prod/scheduler", "--role", id, "--nats-url", w.nats.URL(), "--id", id,
		}, args...)...)
	}
	candidate("a")
	sleeper := worker("sleeper", "--", "sleep", "600")
	worker("pager", "--on", "event", "--publish", "copies.all", "--", "cat")
	said(t, sleeper, 0, "starting the work")
	c.same(1)
	b := candidate("b")
	waitFor(t, b, "a")
	w.stepDown("b")
	s.failoverTrace(receiver, 2, "a: election drain", "b: election failover",
		"sleeper: worker stop", "sleeper: process stopped-leading", "sleeper: process became-leader", "sleeper: worker start",
		"pager: worker stop", "pager: worker start", "pager: worker run")
	c.same(4)

	b.Signal(syscall.SIGKILL)
	s.failoverTrace(receiver, 3, "a: election failover",
		"sleeper: worker stop", "sleeper: process became-leader", "sleeper: worker start", "pager: worker run")

	// A worker that is stopped is no part of a failover: its span is in a trace of
	// its own, which links to the failover that began the term.
	sleeper.Signal(syscall.SIGTERM)
	if code := sleeper.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	began := failover.TraceID(events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}.Source(), 3).String()
	testenv.Eventually(t, 20*time.Second, func() error {
		for _, span := range receiver.Spans() {
			if describeSpan(span) == "sleeper: worker stop" && span.Attributes["election.reason"] == "stopping" && span.TraceID != began {
				return nil
			}
		}
		return fmt.Errorf("no span of the stop")
	})

	// What the pager published carries the trace on.
	c.same(7)
	msg, err := c.js.Stream(t.Context(), "COPIES")
	if err != nil {
		t.Fatal(err)
	}
	last, err := msg.GetLastMsgForSubject(t.Context(), "copies.all")
	if err != nil {
		t.Fatal(err)
	}
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": last.Header.Get("traceparent")})
	if got := trace.SpanContextFromContext(ctx).TraceID().String(); got != began {
		t.Errorf("the copy of the last event is in trace %s, want %s", got, began)
	}
}

// A worker answers as the other commands do.
func TestWorkerAnswersOverHTTP(t *testing.T) {
	w := newWorkshop(t)
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	get := func(path string) (int, string, error) {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	want := func(path string, code int, parts ...string) {
		t.Helper()
		testenv.Eventually(t, 40*time.Second, func() error {
			got, body, err := get(path)
			if err != nil {
				return err
			}
			for _, part := range parts {
				if !strings.Contains(body, part) {
					return fmt.Errorf("%s has no %q but %.3000s", path, part, body)
				}
			}
			if got != code {
				return fmt.Errorf("%s: status %d: %s", path, got, body)
			}
			return nil
		})
	}
	p := w.worker("w1", "--http-addr", addr, "--", "sh", "-c", "sleep 600 & wait")
	want("/healthz", 200, "ok")
	want("/readyz", 503, "the log is not followed") // there is none yet
	a := w.candidate("a")
	want("/readyz", 200, "ok")
	const labels = `{election_cluster="default",election_lease="scheduler",election_namespace="prod"`
	want("/metrics", 200, `leaderbridge_worker_holding`+labels+`,worker_role="sync"} 1`, `leaderbridge_worker_starts_total`+labels+`,worker_role="sync"} 1`)
	want("/", 200, `{"name":"a"}`)
	_, body, err := get("/status")
	var status struct {
		Worker struct {
			Role    string
			Holding bool
			Epoch   int
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &status)
	}
	if err != nil || status.Worker.Role != "sync" || !status.Worker.Holding || status.Worker.Epoch != 1 {
		t.Errorf("status %s: %v", body, err)
	}
	a.Signal(syscall.SIGTERM)
	want("/metrics", 200, `leaderbridge_worker_holding`+labels+`,worker_role="sync"} 0`,
		`leaderbridge_worker_ends_total`+labels+`,outcome="stopped",worker_role="sync"} 1`)
	w.nats.Stop()
	want("/readyz", 503, "there is no connection to NATS")
	want("/healthz", 200, "ok")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(30 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
