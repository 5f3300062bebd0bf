package instruments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var scheduler = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}

// collector makes metrics and a function that returns every point, as
// "name{key=value,…}" to value; of a histogram, its count.
func collector(t *testing.T) (*Metrics, func() map[string]float64) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	m, err := New(t.Context(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	return m, func() map[string]float64 {
		points := map[string]float64{}
		for _, metric := range collect(t, reader) {
			add := func(set attribute.Set, value float64) {
				points[metric.Name+labels(set)] = value
			}
			switch data := metric.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			default:
				t.Fatalf("%s is a %T", metric.Name, data)
			}
		}
		return points
	}
}

func collect(t *testing.T, reader sdkmetric.Reader) []metricdata.Metrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	if len(rm.ScopeMetrics) == 0 {
		return nil
	}
	return rm.ScopeMetrics[0].Metrics
}

func labels(set attribute.Set) string {
	if set.Len() == 0 {
		return ""
	}
	var b strings.Builder
	for i, kv := range set.ToSlice() {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%s", strings.TrimPrefix(string(kv.Key), "election."), kv.Value.AsString())
	}
	return "{" + b.String() + "}"
}

const named = "cluster=default,lease=scheduler,namespace=prod"
const own = "cluster=default,identity=a,lease=scheduler,namespace=prod"

func TestStandbyLeadsAndStops(t *testing.T) {
	m, points := collector(t)
	e := m.Standing(scheduler, "a")
	expect := func(step string, leader, held float64) {
		t.Helper()
		got := points()
		if v, ok := got["leaderbridge.election.leader{"+own+"}"]; !ok || v != leader {
			t.Errorf("%s: leader %v (%v), want %v", step, v, ok, leader)
		}
		v, ok := got["leaderbridge.election.held{"+named+"}"]
		if ok != (held >= 0) || ok && v != held {
			t.Errorf("%s: held %v (%v), want %v", step, v, ok, held)
		}
	}
	expect("nothing known", 0, -1)
	e.SetHeld(true)
	expect("standby", 0, 1)
	e.SetLeading(true)
	expect("leader", 1, 1)
	// Shut down while it leads: the gauge must not stay (field case 36).
	e.SetLeading(false)
	e.SetHeld(false)
	expect("stopped", 0, 0)
	e.Close()
	for point := range points() {
		if strings.HasPrefix(point, "leaderbridge.election.leader") {
			t.Errorf("%s is there after Close", point)
		}
	}
}

// Two processes that both claim to lead must be told apart (field case 36).
func TestTwoLeadersAreTwoSeries(t *testing.T) {
	m, points := collector(t)
	m.Standing(scheduler, "a").SetLeading(true)
	m.Standing(scheduler, "b").SetLeading(true)
	var sum float64
	for point, value := range points() {
		if strings.HasPrefix(point, "leaderbridge.election.leader{") {
			sum += value
		}
	}
	if sum != 2 {
		t.Errorf("the leader gauges add up to %v, want 2", sum)
	}
}

func TestTransitions(t *testing.T) {
	m, points := collector(t)
	e := m.Standing(scheduler, "a")
	const name = "leaderbridge.election.transitions{" + named + ",reason=%s,transition=%s}"
	if v, ok := points()[fmt.Sprintf(name, events.Expired, events.StoppedLeading)]; !ok || v != 0 {
		t.Errorf("before: %v (%v), want a zero", v, ok)
	}
	leaderless := int64(21)
	ctx := t.Context()
	e.Transition(ctx, events.Event{Transition: events.StoppedLeading, Reason: events.Expired})
	e.Transition(ctx, events.Event{Transition: events.BecameLeader, Reason: events.TakenOver, LeaderlessMillis: &leaderless})
	e.Transition(ctx, events.Event{Transition: events.BecameLeader, Reason: events.Acquired})
	e.Transition(ctx, events.Event{Transition: events.BecameLeader, Reason: "text from outside"})
	e.Transition(ctx, events.Event{Transition: "unheard-of", Reason: events.Acquired})
	got := points()
	for point, want := range map[string]float64{
		fmt.Sprintf(name, events.Expired, events.StoppedLeading):                          1,
		fmt.Sprintf(name, events.TakenOver, events.BecameLeader):                          1,
		fmt.Sprintf(name, events.Acquired, events.BecameLeader):                           1,
		fmt.Sprintf(name, "other", events.BecameLeader):                                   1,
		"leaderbridge.election.leaderless.duration{" + named + ",reason=taken-over}":      1,
		fmt.Sprintf(name, events.Acquired, events.NewLeader):                              0,
		fmt.Sprintf("leaderbridge.worker.grant.requests{%s,outcome=%s}", named, "given"):  0,
		fmt.Sprintf("leaderbridge.worker.grant.requests{%s,outcome=%s}", named, "lapsed"): 0,
	} {
		if v, ok := got[point]; !ok || v != want {
			t.Errorf("%s: %v (%v), want %v", point, v, ok, want)
		}
	}
}

func TestDurationsQueueGrantsAndErrors(t *testing.T) {
	m, points := collector(t)
	ctx := t.Context()
	a := m.Standing(scheduler, "a")
	b := m.Watching()
	a.Handover(ctx, 20*time.Millisecond)
	a.Appended(ctx, time.Millisecond, nil)
	a.Appended(ctx, time.Millisecond, fmt.Errorf("append: %w", events.ErrBehind))
	b.Appended(ctx, time.Second, errors.New("no responders"))
	a.Dropped(ctx)
	a.SetQueued(2)
	b.SetQueued(3)
	a.SetGrants(4)
	a.Grant(ctx, GrantRefused)
	a.Grant(ctx, "unheard-of")
	a.SetEpoch(7)
	m.LogReachable(false)
	m.Failed(ctx, PartLog)
	m.Failed(ctx, PartLog)
	m.Failed(ctx, "unheard-of")
	got := points()
	for point, want := range map[string]float64{
		"leaderbridge.election.handover.duration{" + named + "}":            1,
		"leaderbridge.log.append.duration{" + named + ",outcome=ok}":        1,
		"leaderbridge.log.append.duration{" + named + ",outcome=behind}":    1,
		"leaderbridge.log.append.duration{outcome=error}":                   1,
		"leaderbridge.log.queue.depth":                                      5,
		"leaderbridge.log.dropped{" + named + "}":                           1,
		"leaderbridge.log.dropped":                                          0,
		"leaderbridge.log.reachable":                                        0,
		"leaderbridge.worker.grants{" + named + "}":                         4,
		"leaderbridge.worker.grant.requests{" + named + ",outcome=refused}": 1,
		"leaderbridge.election.epoch{" + named + "}":                        7,
		"leaderbridge.errors{part=log}":                                     2,
		"leaderbridge.errors{part=election}":                                0,
		"leaderbridge.watch.elections":                                      1,
	} {
		if v, ok := got[point]; !ok || v != want {
			t.Errorf("%s: %v (%v), want %v", point, v, ok, want)
		}
	}
	if at := got["leaderbridge.last_error.timestamp{part=log}"]; at < float64(time.Now().Add(-time.Minute).Unix()) {
		t.Errorf("last error at %v", at)
	}
	if _, ok := got["leaderbridge.last_error.timestamp{part=election}"]; ok {
		t.Error("a part without an error has a time of it")
	}
}

func TestStaleness(t *testing.T) {
	m, points := collector(t)
	a, b, c := m.Standing(scheduler, "a"), m.Watching(), m.Watching()
	if _, ok := points()["leaderbridge.election.watch.staleness{"+named+"}"]; ok {
		t.Error("a watch that never was has an age")
	}
	now := time.Now()
	a.WatchSeen(now)
	b.WatchSeen(now.Add(-time.Minute))
	c.WatchSeen(now.Add(-time.Hour)) // before the process began
	c.WatchSeen(now)
	m.began = m.began.Add(-2 * time.Minute)
	// The process is now two minutes older, and so is every look at a lock.
	got := points()
	if v := got["leaderbridge.election.watch.staleness{"+named+"}"]; v < 120 || v > 180 {
		t.Errorf("own election: %v s", v)
	}
	if v := got["leaderbridge.election.watch.staleness"]; v < 120 || v > 180 {
		t.Errorf("worst watched election: %v s", v)
	}
}

// Thousands of watched Leases must not become thousands of series.
func TestWatchedElectionsShareTheirSeries(t *testing.T) {
	m, points := collector(t)
	m.Watching().Close()
	report := func(e *Election) {
		e.SetHeld(true)
		e.WatchSeen(time.Now())
		e.SetQueued(1)
		e.Transition(t.Context(), events.Event{Transition: events.NewLeader, Reason: events.Acquired})
		e.Appended(t.Context(), time.Millisecond, nil)
	}
	report(m.Watching())
	one := points()
	for range 5000 {
		report(m.Watching())
	}
	m.Watching().SetHeld(false)
	many := points()
	if len(many) != len(one) {
		t.Errorf("%d series with one watched election, %d with thousands", len(one), len(many))
	}
	for point, want := range map[string]float64{
		"leaderbridge.watch.elections":                                             5002,
		"leaderbridge.watch.leaderless":                                            1,
		"leaderbridge.log.queue.depth":                                             5001,
		"leaderbridge.election.transitions{reason=acquired,transition=new-leader}": 5001,
	} {
		if many[point] != want {
			t.Errorf("%s: %v, want %v", point, many[point], want)
		}
	}
}

func TestBucketsSpanMillisecondsToMinutes(t *testing.T) {
	if !slices.IsSorted(buckets) || buckets[0] > 0.001 || buckets[len(buckets)-1] < 300 {
		t.Errorf("buckets %v", buckets)
	}
	reader := sdkmetric.NewManualReader()
	m, err := New(t.Context(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	e := m.Standing(scheduler, "a")
	e.Handover(t.Context(), 25*time.Millisecond)
	for _, metric := range collect(t, reader) {
		if h, ok := metric.Data.(metricdata.Histogram[float64]); ok && !slices.Equal(h.DataPoints[0].Bounds, buckets) {
			t.Errorf("%s has buckets %v", metric.Name, h.DataPoints[0].Bounds)
		}
	}
}

func TestExemplarLeadsToTheTrace(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	m, err := New(t.Context(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	leaderless := int64(21)
	m.Standing(scheduler, "a").Transition(ctx, events.Event{
		Transition: events.BecameLeader, Reason: events.Acquired, LeaderlessMillis: &leaderless})
	var found bool
	for _, metric := range collect(t, reader) {
		if h, ok := metric.Data.(metricdata.Histogram[float64]); ok {
			for _, x := range h.DataPoints[0].Exemplars {
				found = found || trace.TraceID(x.TraceID) == span.TraceID()
			}
		}
	}
	if !found {
		t.Error("no exemplar with the trace id")
	}
}

// A bridge without metrics calls the same methods.
func TestNilMeasuresNothing(t *testing.T) {
	m, err := New(t.Context(), nil)
	if m != nil || err != nil {
		t.Fatal(m, err)
	}
	ctx := context.Background()
	allocs := testing.AllocsPerRun(100, func() {
		e := m.Standing(scheduler, "a")
		w := m.Watching()
		m.Failed(ctx, PartLog)
		m.LogReachable(true)
		for _, e := range []*Election{e, w} {
			e.SetLeading(true)
			e.SetHeld(true)
			e.SetEpoch(1)
			e.SetQueued(1)
			e.SetGrants(1)
			e.WatchSeen(time.Time{})
			e.Transition(ctx, events.Event{})
			e.Handover(ctx, 1)
			e.Appended(ctx, 1, nil)
			e.Grant(ctx, GrantGiven)
			e.Close()
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// What a renewal reports must cost nothing.
func TestSettersDoNotAllocate(t *testing.T) {
	m, _ := collector(t)
	e := m.Standing(scheduler, "a")
	allocs := testing.AllocsPerRun(100, func() {
		e.SetLeading(true)
		e.SetHeld(true)
		e.SetEpoch(3)
		e.SetQueued(0)
		e.SetGrants(1)
		e.WatchSeen(time.Now())
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
