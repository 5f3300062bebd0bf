package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

var (
	scheduler = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}
	began     = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
)

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

// replica is one process: a tracer with a provider and an exporter of its own.
type replica struct {
	*Tracer
	provider *sdktrace.TracerProvider
	exported *tracetest.InMemoryExporter
}

func newReplica(tb testing.TB, identity string, options ...sdktrace.TracerProviderOption) *replica {
	tb.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(append(options,
		sdktrace.WithIDGenerator(IDGenerator{}), sdktrace.WithSyncer(exporter))...)
	tb.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return &replica{
		Tracer:   New(Options{Provider: provider, Election: scheduler, Identity: identity, Prefix: "leaderbridge"}),
		provider: provider,
		exported: exporter,
	}
}

func (r *replica) consumer(relation Relation) *Consumer {
	return NewConsumer(ConsumerOptions{Provider: r.provider, Prefix: "leaderbridge", Role: "cleaner", Relation: relation})
}

func (r *replica) names() []string {
	var names []string
	for _, s := range r.exported.GetSpans() {
		names = append(names, s.Name)
	}
	return names
}

func (r *replica) span(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range r.exported.GetSpans() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %q among %q", name, r.names())
	return tracetest.SpanStub{}
}

// publishAll is Publish on a copy, so that a test can use its events again.
func publishAll(ctx context.Context, t *Tracer, evs []events.Event) ([]events.Event, *Append) {
	evs = slices.Clone(evs)
	return evs, t.Publish(ctx, evs)
}

func event(kind events.Transition, epoch uint64, ms int) events.Event {
	ev := events.Event{
		Election: scheduler, Transition: kind, UID: "u", Epoch: epoch, Time: at(ms),
		Perspective: events.ByLeader,
	}
	switch kind {
	case events.StoppedLeading:
		ev.PreviousLeader, ev.Reason = "a", events.Released
	default:
		ev.Leader, ev.PreviousLeader, ev.Reason = "b", "a", events.Acquired
	}
	if kind == events.BecameLeader {
		leaderless := int64(20)
		ev.LeaderlessMillis = &leaderless
	}
	return ev
}

const (
	publishStopped = "publish leaderbridge.event.{cluster}.{namespace}.{lease}.stopped-leading"
	publishBecame  = "publish leaderbridge.event.{cluster}.{namespace}.{lease}.became-leader"
	publishNew     = "publish leaderbridge.event.{cluster}.{namespace}.{lease}.new-leader"
)

// A clean hand-over from a to b, lost by c, with a worker of each leader: five
// processes, one trace, one root.
func TestHandOverIsOneTrace(t *testing.T) {
	ctx := t.Context()
	a, b, c := newReplica(t, "a"), newReplica(t, "b"), newReplica(t, "c")
	w := newReplica(t, "w")

	before := event(events.NewLeader, 7, -60000)
	before.TraceParent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	a.Settle(ctx, before)

	a.Step(t.Context(), Step{Name: Drain, Start: at(0), End: at(100)})
	stopped, appending := publishAll(ctx, a.Tracer, []events.Event{event(events.StoppedLeading, 7, 101)})
	if n := len(a.names()); n != 0 {
		t.Errorf("%d spans before the log took the event", n)
	}
	appending.Done(nil)
	a.Step(t.Context(), Step{Name: Release, Start: at(102), End: at(105)})
	if got, want := a.names(), []string{"election drain", publishStopped, "election release"}; !slices.Equal(got, want) {
		t.Errorf("the old leader may end now, with the spans %q, want %q", got, want)
	}

	for _, r := range []*replica{b, c} {
		r.Step(t.Context(), Step{Name: Observe, Start: at(106), End: at(107)})
	}
	b.Step(t.Context(), Step{Name: Acquire, Start: at(107), End: at(120), Outcome: "acquired"})
	c.Step(t.Context(), Step{Name: Acquire, Start: at(108), End: at(121), Outcome: "conflict"})
	b.Settle(ctx, stopped[0])
	began, appending := publishAll(ctx, b.Tracer, []events.Event{
		event(events.BecameLeader, 8, 121), event(events.NewLeader, 8, 121)})
	appending.Done(nil)
	c.Settle(t.Context(), began[1])
	c.Settle(t.Context(), began[1])

	worker := w.consumer(ChildOf)
	wctx, process := worker.Process(ctx, stopped[0])
	_, stop := worker.StopWorker(wctx, scheduler, 7, "stopped-leading")
	stop.End()
	process.End()
	wctx, process = worker.Process(ctx, began[0])
	_, start := worker.StartWorker(wctx, scheduler, 8)
	start.End()
	process.End()

	for r, want := range map[*replica][]string{
		a: {"election drain", publishStopped, "election release"},
		b: {"election observe", "election acquire", publishBecame, publishNew, "election failover"},
		c: {"election observe", "election acquire"},
		w: {"worker stop", strings.Replace(publishStopped, "publish", "process", 1),
			"worker start", strings.Replace(publishBecame, "publish", "process", 1)},
	} {
		if got := r.names(); !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
		for _, s := range r.exported.GetSpans() {
			if s.SpanContext.TraceID() != TraceID(scheduler.Source(), 8) {
				t.Errorf("%s is in trace %s", s.Name, s.SpanContext.TraceID())
			}
		}
	}

	// One root, and every span hangs on it.
	parents := map[trace.SpanID]trace.SpanID{}
	for _, r := range []*replica{a, b, c, w} {
		for _, s := range r.exported.GetSpans() {
			parents[s.SpanContext.SpanID()] = s.Parent.SpanID()
		}
	}
	root := RootSpanID(scheduler.Source(), 8)
	for id, parent := range parents {
		if id == root {
			if parent.IsValid() {
				t.Error("the root has a parent")
			}
			continue
		}
		if _, ok := parents[parent]; !ok {
			t.Errorf("span %s has a parent that nobody exported", id)
		}
	}
	if _, ok := parents[root]; !ok {
		t.Error("no root")
	}

	// The root is the time without a leader, and leads to the failover before.
	failover := b.span(t, "election failover")
	if !failover.StartTime.Equal(at(101)) || !failover.EndTime.Equal(at(121)) {
		t.Errorf("no leader from %s to %s", failover.StartTime, failover.EndTime)
	}
	if links := failover.Links; len(links) != 1 || links[0].SpanContext.SpanID() != RootSpanID(scheduler.Source(), 7) {
		t.Errorf("the root links to %v", links)
	}
	if acquire := b.span(t, "election acquire"); !acquire.StartTime.Equal(at(107)) || !acquire.EndTime.Equal(at(120)) {
		t.Errorf("acquire from %s to %s", acquire.StartTime, acquire.EndTime)
	}

	// Each append links to the one before (field case 86).
	for _, link := range []struct {
		from tracetest.SpanStub
		to   trace.SpanContext
	}{
		{a.span(t, publishStopped), SpanContext(t.Context(), before)},
		{b.span(t, publishBecame), a.span(t, publishStopped).SpanContext},
		{b.span(t, publishNew), b.span(t, publishBecame).SpanContext},
	} {
		if links := link.from.Links; len(links) != 1 || links[0].SpanContext.SpanID() != link.to.SpanID() ||
			links[0].SpanContext.TraceID() != link.to.TraceID() {
			t.Errorf("%s links to %v, want %v", link.from.Name, links, link.to)
		}
	}

	// The event carries the publish span itself, not its parent (field case 90).
	if got := SpanContext(t.Context(), began[0]); got.SpanID() != b.span(t, publishBecame).SpanContext.SpanID() || !got.IsSampled() {
		t.Errorf("the event carries %v", got)
	}
	if got := w.exported.GetSpans()[1].Parent; got.SpanID() != a.span(t, publishStopped).SpanContext.SpanID() || !got.IsRemote() {
		t.Errorf("the worker's parent is %v", got)
	}
}

// The leader was killed: a witness reports it, and another candidate follows.
// Their spans meet in one trace without a word from the dead.
func TestCrashHasItsTraceToo(t *testing.T) {
	ctx := t.Context()
	witness, next, w := newReplica(t, "c"), newReplica(t, "b"), newReplica(t, "w")
	for _, r := range []*replica{witness, next} {
		r.Step(t.Context(), Step{Name: Observe, Start: at(0), End: at(15000)})
	}
	expired := event(events.StoppedLeading, 7, 15000)
	expired.Reason, expired.Perspective = events.Expired, events.ByWitness
	reported, appending := publishAll(ctx, witness.Tracer, []events.Event{expired})
	appending.Done(nil)

	next.Step(t.Context(), Step{Name: Acquire, Start: at(15001), End: at(15010)})
	// The new leader wanted to report the end too, and lost that race.
	_, lost := publishAll(ctx, next.Tracer, []events.Event{expired, event(events.BecameLeader, 8, 15010)})
	lost.Done(fmt.Errorf("append: %w", events.ErrBehind))
	next.Settle(t.Context(), reported[0])
	_, appending = publishAll(ctx, next.Tracer, []events.Event{event(events.BecameLeader, 8, 15010)})
	appending.Done(nil)

	// The worker's grant lapsed before anybody told it why.
	_, stop := w.consumer(ChildOf).StopWorker(ctx, scheduler, 7, "grant-lapsed")
	stop.End()

	for r, want := range map[*replica][]string{
		witness: {"election observe", publishStopped},
		next:    {"election observe", "election acquire", publishBecame, "election failover"},
		w:       {"worker stop"},
	} {
		if got := r.names(); !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
		for _, s := range r.exported.GetSpans() {
			if s.SpanContext.TraceID() != TraceID(scheduler.Source(), 8) {
				t.Errorf("%s is in trace %s", s.Name, s.SpanContext.TraceID())
			}
			if s.Name != "election failover" && s.Parent.SpanID() != RootSpanID(scheduler.Source(), 8) {
				t.Errorf("%s is below %s", s.Name, s.Parent.SpanID())
			}
		}
	}
}

// The answer to an append was lost: what the log shows decides.
func TestUnknownAppend(t *testing.T) {
	pair := []events.Event{event(events.BecameLeader, 8, 0), event(events.NewLeader, 8, 0)}
	lost := errors.New("timeout")
	t.Run("made", func(t *testing.T) {
		r := newReplica(t, "b")
		evs, a := publishAll(t.Context(), r.Tracer, pair)
		a.Done(lost)
		r.Settle(t.Context(), evs[1])
		r.Settle(t.Context(), evs[1])
		if got, want := r.names(), []string{publishBecame, publishNew, "election failover"}; !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
		if s := r.span(t, publishBecame); s.Status.Code != codes.Unset {
			t.Errorf("status %v", s.Status)
		}
	})
	t.Run("half made", func(t *testing.T) {
		r := newReplica(t, "b")
		evs, a := publishAll(t.Context(), r.Tracer, pair)
		a.Done(lost)
		r.Settle(t.Context(), evs[0])
		_, a = publishAll(t.Context(), r.Tracer, pair[1:])
		a.Done(nil)
		if got, want := r.names(), []string{publishBecame, "election failover", publishNew}; !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
	t.Run("half made, and read before the outcome was known", func(t *testing.T) {
		r := newReplica(t, "b")
		evs, a := publishAll(t.Context(), r.Tracer, pair)
		r.Settle(t.Context(), evs[0])
		r.Settle(t.Context(), event(events.NewLeader, 8, 0)) // a rival's
		a.Done(events.ErrBehind)
		if got, want := r.names(), []string{publishBecame, "election failover"}; !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
	t.Run("not made", func(t *testing.T) {
		r := newReplica(t, "b")
		r.Step(t.Context(), Step{Name: Observe, Start: at(0), End: at(1)})
		_, a := publishAll(t.Context(), r.Tracer, pair)
		a.Done(lost)
		r.Settle(t.Context(), event(events.NewLeader, 8, 0))
		if got, want := r.names(), []string{"election observe"}; !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
	t.Run("tried again", func(t *testing.T) {
		r := newReplica(t, "b")
		_, a := publishAll(t.Context(), r.Tracer, pair)
		a.Done(lost)
		_, a = publishAll(t.Context(), r.Tracer, pair)
		a.Done(nil)
		if n := len(r.names()); n != 3 {
			t.Errorf("spans %q", r.names())
		}
		if !slices.Contains(r.span(t, publishBecame).Attributes, attemptsKey.Int(2)) {
			t.Error("the attempts are not told")
		}
	})
}

// What became of an append may show only after the next one was tried.
func TestUnknownAppendIsRemembered(t *testing.T) {
	r := newReplica(t, "b")
	first, a := publishAll(t.Context(), r.Tracer, []events.Event{event(events.StoppedLeading, 7, 0)})
	a.Done(errors.New("timeout"))
	for range maxUnknown - 1 {
		_, a = publishAll(t.Context(), r.Tracer, []events.Event{event(events.BecameLeader, 8, 1)})
		a.Done(events.ErrBehind)
	}
	r.Settle(t.Context(), first[0])
	if got, want := r.names(), []string{publishStopped}; !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
}

// The log also delivers what this process appended itself, later. That must not
// take the steps of the next failover for its own.
func TestOwnEventsComeBack(t *testing.T) {
	r := newReplica(t, "b")
	evs, a := publishAll(t.Context(), r.Tracer, []events.Event{event(events.BecameLeader, 8, 0), event(events.NewLeader, 8, 0)})
	a.Done(nil)
	r.exported.Reset()
	r.Step(t.Context(), Step{Name: Drain, Start: at(1), End: at(2)})
	r.Settle(t.Context(), evs[0])
	r.Settle(t.Context(), evs[1])
	if got := r.names(); len(got) > 0 {
		t.Errorf("spans %q", got)
	}
	_, a = publishAll(t.Context(), r.Tracer, []events.Event{event(events.StoppedLeading, 8, 3)})
	a.Done(nil)
	s := r.span(t, "election drain")
	if s.SpanContext.TraceID() != TraceID(scheduler.Source(), 9) {
		t.Errorf("the drain is in trace %s", s.SpanContext.TraceID())
	}
	if links := r.span(t, publishStopped).Links; len(links) != 1 || links[0].SpanContext.SpanID() != SpanContext(t.Context(), evs[1]).SpanID() {
		t.Errorf("the end links to %v", links)
	}
}

// A process that starts takes the election before it has read the log, whose
// last event is a week old.
func TestStepsBeforeTheLogWasRead(t *testing.T) {
	const week = 7 * 24 * 3600 * 1000
	r := newReplica(t, "b")
	r.Step(t.Context(), Step{Name: Acquire, Start: at(week), End: at(week + 5)})
	r.Settle(t.Context(), event(events.NewLeader, 7, 0))
	if got := r.names(); len(got) > 0 {
		t.Errorf("spans %q", got)
	}
	_, a := publishAll(t.Context(), r.Tracer, []events.Event{event(events.StoppedLeading, 7, week), event(events.BecameLeader, 8, week+5)})
	a.Done(nil)
	if s := r.span(t, "election acquire"); s.SpanContext.TraceID() != TraceID(scheduler.Source(), 8) {
		t.Errorf("the write is in trace %s", s.SpanContext.TraceID())
	}
}

// The epoch was taken by another: everything moves to the next trace.
func TestEpochChangesBeforeTheAppend(t *testing.T) {
	r := newReplica(t, "b")
	_, a := publishAll(t.Context(), r.Tracer, []events.Event{event(events.BecameLeader, 8, 0)})
	a.Done(events.ErrBehind)
	r.Step(t.Context(), Step{Name: Acquire, Start: at(1), End: at(2)})
	_, a = publishAll(t.Context(), r.Tracer, []events.Event{event(events.BecameLeader, 9, 3)})
	a.Done(nil)
	if got, want := r.names(), []string{"election acquire", publishBecame, "election failover"}; !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
	for _, s := range r.exported.GetSpans() {
		if s.SpanContext.TraceID() != TraceID(scheduler.Source(), 9) {
			t.Errorf("%s is in trace %s", s.Name, s.SpanContext.TraceID())
		}
	}
}

// After an outage of the log one append tells of several failovers.
func TestCatchUpIsOneTracePerFailover(t *testing.T) {
	r := newReplica(t, "b")
	r.Step(t.Context(), Step{Name: Acquire, Start: at(0), End: at(5)})
	r.Step(t.Context(), Step{Name: Drain, Start: at(1000), End: at(1010)})
	r.Step(t.Context(), Step{Name: Acquire, Start: at(5000), End: at(5005)})
	_, a := publishAll(t.Context(), r.Tracer, []events.Event{
		event(events.BecameLeader, 8, 5), event(events.NewLeader, 8, 5),
		event(events.StoppedLeading, 8, 1010),
		event(events.BecameLeader, 9, 5005), event(events.NewLeader, 9, 5005),
	})
	a.Done(nil)
	count := map[trace.TraceID]map[string]int{}
	for _, s := range r.exported.GetSpans() {
		if count[s.SpanContext.TraceID()] == nil {
			count[s.SpanContext.TraceID()] = map[string]int{}
		}
		count[s.SpanContext.TraceID()][s.Name]++
	}
	eight, nine := count[TraceID(scheduler.Source(), 8)], count[TraceID(scheduler.Source(), 9)]
	if len(count) != 2 || eight["election failover"] != 1 || nine["election failover"] != 1 ||
		eight["election acquire"] != 1 || nine["election drain"] != 1 || nine["election acquire"] != 1 ||
		nine[publishStopped] != 1 || nine[publishBecame] != 1 {
		t.Errorf("traces %v", count)
	}
}

func TestPublishSpanFollowsTheConventions(t *testing.T) {
	r := newReplica(t, "b")
	evs, a := publishAll(t.Context(), r.Tracer, []events.Event{event(events.BecameLeader, 8, 0)})
	a.Done(nil)
	_, process := r.consumer(ChildOf).Process(t.Context(), evs[0])
	process.End()
	common := []attribute.KeyValue{
		attribute.String("messaging.system", "nats"),
		attribute.String("messaging.destination.name", "leaderbridge.event.default.prod.scheduler.became-leader"),
		attribute.String("messaging.destination.template", "leaderbridge.event.{cluster}.{namespace}.{lease}.became-leader"),
		attribute.String("messaging.message.id", "u.8.became-leader"),
		attribute.String("cloudevents.event_id", "u.8.became-leader"),
		attribute.String("cloudevents.event_source", scheduler.Source()),
		attribute.String("cloudevents.event_spec_version", "1.0"),
		attribute.String("cloudevents.event_type", "io.leaderbridge.became-leader.v1"),
		attribute.String("election.namespace", "prod"),
		attribute.String("election.leader", "b"),
		attribute.Int64("election.epoch", 8),
	}
	for name, want := range map[string]struct {
		kind  trace.SpanKind
		extra []attribute.KeyValue
	}{
		publishBecame: {trace.SpanKindProducer, []attribute.KeyValue{
			attribute.String("messaging.operation.name", "publish"), attribute.String("messaging.operation.type", "send")}},
		strings.Replace(publishBecame, "publish", "process", 1): {trace.SpanKindConsumer, []attribute.KeyValue{
			attribute.String("messaging.operation.name", "process"), attribute.String("messaging.operation.type", "process")}},
	} {
		s := r.span(t, name)
		if s.SpanKind != want.kind || s.InstrumentationScope.SchemaURL != semconv.SchemaURL {
			t.Errorf("%s: kind %v, schema %s", name, s.SpanKind, s.InstrumentationScope.SchemaURL)
		}
		for _, kv := range append(common, want.extra...) {
			if !slices.Contains(s.Attributes, kv) {
				t.Errorf("%s: no %s=%s", name, kv.Key, kv.Value.String())
			}
		}
	}
}

func TestFailedStep(t *testing.T) {
	r := newReplica(t, "a")
	r.Step(t.Context(), Step{Name: Release, Start: at(0), End: at(1), Epoch: 8, Err: context.DeadlineExceeded})
	s := r.span(t, "election release")
	if s.Status.Code != codes.Error || s.Status.Description != context.DeadlineExceeded.Error() ||
		!slices.ContainsFunc(s.Attributes, func(kv attribute.KeyValue) bool { return kv.Key == semconv.ErrorTypeKey }) {
		t.Errorf("status %v, attributes %v", s.Status, s.Attributes)
	}
}

// A candidate that tries for days without a log must not grow.
func TestStepsAreBounded(t *testing.T) {
	r := newReplica(t, "a")
	for i := range 10 * maxSteps {
		r.Step(t.Context(), Step{Name: Acquire, Start: at(i), End: at(i + 1)})
	}
	r.Settle(t.Context(), event(events.BecameLeader, 8, 0))
	spans := r.exported.GetSpans()
	if len(spans) != maxSteps || !spans[maxSteps-1].StartTime.Equal(at(10*maxSteps-1)) {
		t.Errorf("%d spans, the last from %s", len(spans), spans[len(spans)-1].StartTime)
	}
}

// A sampler by ratio decides by the trace id, so replicas that share settings
// agree (field case 88).
func TestReplicasAgreeOnSampling(t *testing.T) {
	for name, sampler := range map[string]sdktrace.Sampler{
		"traceidratio":             sdktrace.TraceIDRatioBased(0.5),
		"parentbased_traceidratio": sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newReplica(t, "a", sdktrace.WithSampler(sampler)), newReplica(t, "b", sdktrace.WithSampler(sampler))
			w := newReplica(t, "w") // samples by its parent
			sampled := 0
			for epoch := uint64(1); epoch <= 64; epoch++ {
				for _, r := range []*replica{a, b, w} {
					r.exported.Reset()
				}
				_, done := publishAll(t.Context(), a.Tracer, []events.Event{event(events.StoppedLeading, epoch, 0)})
				done.Done(nil)
				became, done := publishAll(t.Context(), b.Tracer, []events.Event{event(events.BecameLeader, epoch+1, 0)})
				done.Done(nil)
				_, process := w.consumer(ChildOf).Process(t.Context(), became[0])
				process.End()
				na, nb, nw := len(a.names()), len(b.names()), len(w.names())
				if (na > 0) != (nb > 0) || (na > 0) != (nw > 0) {
					t.Errorf("epoch %d: %d, %d and %d spans", epoch, na, nb, nw)
				}
				if got := SpanContext(t.Context(), became[0]); got.IsSampled() != (nb > 0) || !got.IsValid() {
					t.Errorf("epoch %d: the event carries %v", epoch, got)
				}
				if na > 0 {
					sampled++
				}
			}
			if sampled < 16 || sampled > 48 {
				t.Errorf("%d of 64 sampled by half", sampled)
			}
		})
	}
}

// One setting decides between link and parent (field case 89).
func TestConsumerMayLinkInstead(t *testing.T) {
	r, w := newReplica(t, "b"), newReplica(t, "w")
	evs, a := publishAll(t.Context(), r.Tracer, []events.Event{event(events.BecameLeader, 8, 0)})
	a.Done(nil)
	c := w.consumer(LinkTo)
	_, s := c.Process(t.Context(), evs[0])
	s.End()
	_, s = c.StopWorker(t.Context(), scheduler, 7, "grant-lapsed")
	s.End()
	for i, want := range []trace.SpanContext{SpanContext(t.Context(), evs[0]), rootContext(scheduler.Source(), 8)} {
		got := w.exported.GetSpans()[i]
		if got.Parent.IsValid() || got.SpanContext.TraceID() == want.TraceID() ||
			len(got.Links) != 1 || got.Links[0].SpanContext.SpanID() != want.SpanID() {
			t.Errorf("%s: parent %v, links %v", got.Name, got.Parent, got.Links)
		}
	}
}

// A start without an event, and a stop while the term goes on, are no part of the
// failover that began the term, and link to it.
// A worker has its grant before it has read of the term: its start is a part of
// the failover all the same, or is linked to it.
func TestWorkerStartsBeforeTheNews(t *testing.T) {
	want := rootContext(scheduler.Source(), 8)
	for _, relation := range []Relation{ChildOf, LinkTo} {
		w := newReplica(t, "w")
		c := w.consumer(relation)
		_, s := c.StartWorker(c.Failover(t.Context(), scheduler, 8), scheduler, 8)
		s.End()
		got := w.span(t, "worker start")
		switch relation {
		case LinkTo:
			if got.Parent.IsValid() || len(got.Links) != 1 || got.Links[0].SpanContext.SpanID() != want.SpanID() {
				t.Errorf("linked: parent %v, links %v", got.Parent, got.Links)
			}
		default:
			if got.Parent.SpanID() != want.SpanID() || got.SpanContext.TraceID() != want.TraceID() || len(got.Links) != 0 {
				t.Errorf("parent %v, links %v, want the root of the failover %v", got.Parent, got.Links, want)
			}
		}
	}
}

func TestWorkersOutsideAFailover(t *testing.T) {
	w := newReplica(t, "w")
	c := w.consumer(ChildOf)
	_, s := c.StartWorker(t.Context(), scheduler, 8)
	s.End()
	_, s = c.LeaveWorker(t.Context(), scheduler, 8, "stopping")
	s.End()
	want := rootContext(scheduler.Source(), 8)
	for _, got := range w.exported.GetSpans() {
		if got.Parent.IsValid() || got.SpanContext.TraceID() == want.TraceID() ||
			len(got.Links) != 1 || got.Links[0].SpanContext.SpanID() != want.SpanID() {
			t.Errorf("%s: parent %v, links %v", got.Name, got.Parent, got.Links)
		}
	}
}

// An event from elsewhere may have no context, and the caller's own span is not
// its cause.
func TestConsumerOfAnEventWithoutContext(t *testing.T) {
	w := newReplica(t, "w")
	ctx, other := w.provider.Tracer("test").Start(t.Context(), "other")
	defer other.End()
	_, s := w.consumer(ChildOf).Process(ctx, event(events.BecameLeader, 8, 0))
	s.End()
	if got := w.exported.GetSpans()[0]; got.Parent.IsValid() || len(got.Links) > 0 {
		t.Errorf("parent %v, links %v", got.Parent, got.Links)
	}
}

// A worker in a program with a provider of its own, without our ids.
func TestConsumerWithoutTheIDGenerator(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	_, s := NewConsumer(ConsumerOptions{Provider: provider}).StopWorker(t.Context(), scheduler, 7, "grant-lapsed")
	s.End()
	if got := exporter.GetSpans()[0]; got.Parent.IsValid() {
		t.Errorf("below a span that nobody exports: %v", got.Parent)
	}
}

func TestOffAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	tracer := New(Options{Election: scheduler})
	consumer := NewConsumer(ConsumerOptions{})
	evs := []events.Event{event(events.BecameLeader, 8, 0)}
	allocs := testing.AllocsPerRun(100, func() {
		tracer.Step(ctx, Step{Name: Acquire, Start: began, End: began, Err: context.Canceled})
		out, a := evs, tracer.Publish(ctx, evs)
		_ = a.Context(0)
		a.Done(nil)
		tracer.Settle(ctx, out[0])
		wctx, s := consumer.Process(ctx, out[0])
		_, start := consumer.StartWorker(wctx, scheduler, 8)
		_, stop := consumer.StopWorker(wctx, scheduler, 8, "x")
		_, leave := consumer.LeaveWorker(wctx, scheduler, 8, "x")
		_, run := consumer.RunWorker(wctx, out[0])
		leave.End()
		run.End()
		start.End()
		stop.End()
		s.End()
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if evs[0].TraceParent != "" {
		t.Error("an event has a context without tracing")
	}
}

// BenchmarkTransition measures what tracing adds to one failover on the new
// leader: two steps, three events, the root.
func BenchmarkTransition(b *testing.B) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(IDGenerator{}), sdktrace.WithBatcher(discard{}))
	b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	for name, tracer := range map[string]*Tracer{
		"on":  New(Options{Provider: provider, Election: scheduler, Identity: "b", Prefix: "leaderbridge"}),
		"off": nil,
	} {
		b.Run(name, func(b *testing.B) {
			evs := []events.Event{event(events.StoppedLeading, 7, 0), event(events.BecameLeader, 8, 20), event(events.NewLeader, 8, 20)}
			b.ReportAllocs()
			for b.Loop() {
				tracer.Step(context.Background(), Step{Name: Observe, Start: at(0), End: at(1)})
				tracer.Step(context.Background(), Step{Name: Acquire, Start: at(1), End: at(20)})
				tracer.Publish(context.Background(), evs).Done(nil)
			}
		})
	}
}

type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }
