package telemetry_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/internal/telemetry"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/otelenv"
)

var election = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}

const (
	prefix   = "leaderbridge"
	childEnv = "LEADERBRIDGE_TEST_CHILD"
	natsEnv  = "LEADERBRIDGE_TEST_NATS"
)

// A child is this very test program in another role: a replica or subscriber
// with a telemetry of its own. It does what the lines on its standard input
// say, answers each with a line, and ends with its input.
func init() {
	name := os.Getenv(childEnv)
	if name == "" {
		return
	}
	if err := serve(name, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(name string, in io.Reader, out io.Writer) (err error) {
	ctx := context.Background()
	tel, err := telemetry.Setup(ctx, telemetry.Options{Instance: name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Shutdown(ctx)) }()
	conn, err := nats.Connect(os.Getenv(natsEnv))
	if err != nil {
		return err
	}
	defer conn.Close()
	tracer := failover.New(failover.Options{Provider: tel.Tracers, Election: election, Identity: name, Prefix: prefix})
	measured := tel.Metrics.Standing(election, name)
	publish := func(evs []events.Event) error {
		appending := tracer.Publish(ctx, evs)
		for i, ev := range evs {
			header, data, err := events.Encode(ev, events.Structured) //nolint:contextcheck // it does no I/O
			if err != nil {
				return err
			}
			if err := conn.PublishMsg(&nats.Msg{Subject: election.Subject(prefix, ev.Transition), Header: header, Data: data}); err != nil {
				return err
			}
			measured.Transition(appending.Context(i), ev) //nolint:contextcheck // of the event's own span
		}
		err := conn.Flush()
		appending.Done(err)
		return err
	}
	event := func(kind events.Transition, epoch uint64, reason events.Reason) events.Event {
		leaderless := int64(20)
		ev := events.Event{Election: election, Transition: kind, UID: "6f0e8c5a-0d43-4a8c-9d4e-52f0a7c4d0d1", Epoch: epoch,
			Time: time.Now().UTC(), Reason: reason, Reporter: name, Perspective: events.ByLeader}
		if kind == events.StoppedLeading {
			ev.PreviousLeader = "pod-a"
			if reason == events.Expired {
				ev.Perspective = events.ByWitness
			}
		} else {
			ev.Leader, ev.LeaderlessMillis = name, &leaderless
		}
		return ev
	}
	subscriptions := map[string]*nats.Subscription{}
	orders := bufio.NewScanner(in)
	for orders.Scan() {
		now := time.Now()
		switch order := orders.Text(); order {
		case "hello":
		case "lead 7":
			err = publish([]events.Event{event(events.BecameLeader, 7, events.Acquired), event(events.NewLeader, 7, events.Acquired)})
		case "step down":
			tracer.Step(ctx, failover.Step{Name: failover.Drain, Start: now, End: now.Add(time.Millisecond)})
			err = publish([]events.Event{event(events.StoppedLeading, 7, events.StepDown)})
			tracer.Step(ctx, failover.Step{Name: failover.Release, Start: now, End: time.Now(), Epoch: 8})
		case "witness":
			tracer.Step(ctx, failover.Step{Name: failover.Observe, Start: now.Add(-15 * time.Second), End: now})
			err = publish([]events.Event{event(events.StoppedLeading, 7, events.Expired)})
		case "take over":
			tracer.Step(ctx, failover.Step{Name: failover.Observe, Start: now, End: now.Add(time.Millisecond)})
			tracer.Step(ctx, failover.Step{Name: failover.Acquire, Start: now.Add(time.Millisecond), End: now.Add(9 * time.Millisecond)})
			err = publish([]events.Event{event(events.BecameLeader, 8, events.Acquired), event(events.NewLeader, 8, events.Acquired)})
		case "subscribe":
			for _, kind := range []events.Transition{events.StoppedLeading, events.BecameLeader} {
				subscriptions[string(kind)], err = conn.SubscribeSync(election.Subject(prefix, kind))
				err = errors.Join(err, conn.Flush())
			}
		case "work":
			// A worker of ours: stopped, then started.
			err = work(ctx, tel.Tracers, subscriptions)
		case "continue":
			// A program that knows nothing of us: the header is all it has.
			var msg *nats.Msg
			if msg, err = subscriptions[string(events.BecameLeader)].NextMsg(10 * time.Second); err == nil {
				ctx := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
					"traceparent": msg.Header.Get("traceparent"), "tracestate": msg.Header.Get("tracestate")})
				_, span := tel.Tracers.Tracer("plain").Start(ctx, "notify people", trace.WithSpanKind(trace.SpanKindConsumer))
				span.End()
			}
		default:
			err = fmt.Errorf("unknown order %q", order)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "done")
	}
	return orders.Err()
}

func work(ctx context.Context, provider trace.TracerProvider, subscriptions map[string]*nats.Subscription) error {
	consumer := failover.NewConsumer(failover.ConsumerOptions{Provider: provider, Prefix: prefix, Role: "cleaner"})
	for _, kind := range []events.Transition{events.StoppedLeading, events.BecameLeader} {
		msg, err := subscriptions[string(kind)].NextMsg(10 * time.Second)
		if err != nil {
			return err
		}
		ev, err := events.Decode(msg.Header, msg.Data) //nolint:contextcheck // it does no I/O
		if err != nil {
			return err
		}
		ctx, process := consumer.Process(ctx, ev)
		if kind == events.StoppedLeading {
			_, stop := consumer.StopWorker(ctx, ev.Election, ev.Epoch, string(kind))
			stop.End()
		} else {
			_, start := consumer.StartWorker(ctx, ev.Election, ev.Epoch)
			start.End()
		}
		process.End()
	}
	return nil
}

// process is a running child.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	orders io.WriteCloser
	lines  *bufio.Scanner
	ended  bool
}

func start(t *testing.T, name string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, childEnv+"="+name)
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: name, cmd: cmd, orders: orders, lines: bufio.NewScanner(out)}
	t.Cleanup(p.stop)
	p.do("hello")
	return p
}

func (p *process) do(order string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.orders, order); err != nil {
		p.t.Fatalf("%s, %s: %v", p.name, order, err)
	}
	if !p.lines.Scan() {
		p.t.Fatalf("%s, %s: no answer", p.name, order)
	}
}

// stop lets the process end as it should.
func (p *process) stop() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.orders.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%s: %v", p.name, err)
	}
}

func (p *process) kill() {
	p.t.Helper()
	p.ended = true
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

const (
	publishStopped = "publish leaderbridge.event.{cluster}.{namespace}.{lease}.stopped-leading"
	publishBecame  = "publish leaderbridge.event.{cluster}.{namespace}.{lease}.became-leader"
	publishNew     = "publish leaderbridge.event.{cluster}.{namespace}.{lease}.new-leader"
	processStopped = "process leaderbridge.event.{cluster}.{namespace}.{lease}.stopped-leading"
	processBecame  = "process leaderbridge.event.{cluster}.{namespace}.{lease}.became-leader"
)

// Processes that share nothing but the log meet in one trace, at a real OTLP
// endpoint: after a step-down, and after a leader was killed.
func TestProcessesMeetInOneTrace(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run("step-down over "+protocol, func(t *testing.T) {
			receiver, env := environment(t, protocol)
			a, b, w, plain := start(t, "pod-a", env...), start(t, "pod-b", env...), start(t, "worker", env...), start(t, "plain", env...)
			w.do("subscribe")
			a.do("lead 7")
			plain.do("subscribe")
			w.do("subscribe") // anew: what came before is not for this failover
			a.do("step down")
			b.do("take over")
			w.do("work")
			plain.do("continue")
			for _, p := range []*process{a, b, w, plain} {
				p.stop()
			}
			check(t, receiver, map[string][]string{
				"pod-a":  {"election drain", publishStopped, "election release"},
				"pod-b":  {"election observe", "election acquire", publishBecame, publishNew, "election failover"},
				"worker": {"worker stop", processStopped, "worker start", processBecame},
				"plain":  {"notify people"},
			})
		})
	}
	t.Run("SIGKILL", func(t *testing.T) {
		receiver, env := environment(t, "grpc")
		a, b, c, w := start(t, "pod-a", env...), start(t, "pod-b", env...), start(t, "pod-c", env...), start(t, "worker", env...)
		a.do("lead 7")
		w.do("subscribe")
		a.kill()
		c.do("witness")
		b.do("take over")
		w.do("work")
		for _, p := range []*process{b, c, w} {
			p.stop()
		}
		check(t, receiver, map[string][]string{
			"pod-b":  {"election observe", "election acquire", publishBecame, publishNew, "election failover"},
			"pod-c":  {"election observe", publishStopped},
			"worker": {"worker stop", processStopped, "worker start", processBecame},
		})
	})
}

func environment(t *testing.T, protocol string) (*otelenv.Receiver, []string) {
	t.Helper()
	receiver := otelenv.Start(t)
	return receiver, append(receiver.Env(protocol), natsEnv+"="+natsenv.Start(t).URL())
}

// check waits until the failover to term 8 has the given spans of the given
// processes in one trace, below one root.
func check(t *testing.T, receiver *otelenv.Receiver, want map[string][]string) {
	t.Helper()
	traceID := failover.TraceID(election.Source(), 8).String()
	var spans []otelenv.Span
	testenv.Eventually(t, 20*time.Second, func() error {
		spans = nil
		got := map[string][]string{}
		for _, s := range receiver.Spans() {
			if s.TraceID == traceID {
				spans = append(spans, s)
				instance := s.Resource["service.instance.id"]
				got[instance] = append(got[instance], s.Name)
			}
		}
		for instance, names := range want {
			have := slices.Sorted(slices.Values(got[instance]))
			if !slices.Equal(have, slices.Sorted(slices.Values(names))) {
				return fmt.Errorf("%s has spans %q, want %q", instance, have, names)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("spans of %d processes, want %d", len(got), len(want))
		}
		return nil
	})
	ids := map[string]bool{}
	for _, s := range spans {
		ids[s.SpanID] = true
	}
	for _, s := range spans {
		if s.Resource["service.name"] != "leaderbridge" {
			t.Errorf("%s is of service %s", s.Name, s.Resource["service.name"])
		}
		if s.ParentID == "" {
			if s.Name != "election failover" {
				t.Errorf("%s is a root", s.Name)
			}
			continue
		}
		if !ids[s.ParentID] {
			b, _ := json.Marshal(s)
			t.Errorf("a span whose parent did not arrive: %s", b)
		}
	}
	if !receiver.Metrics()["leaderbridge.election.transitions"] {
		t.Errorf("metrics %v", receiver.Metrics())
	}
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "publish ") && s.Kind != "producer" || strings.HasPrefix(s.Name, "process ") && s.Kind != "consumer" {
			t.Errorf("%s is a %s span", s.Name, s.Kind)
		}
	}
}
