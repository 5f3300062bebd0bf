package instruments

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Metrics are the instruments of one process. Methods are safe for concurrent
// use, and do nothing on nil.
type Metrics struct {
	transitions metric.Int64Counter
	leaderless  metric.Float64Histogram
	handover    metric.Float64Histogram
	append      metric.Float64Histogram
	grantsTotal metric.Int64Counter
	errors      metric.Int64Counter
	starts      metric.Int64Counter
	ends        metric.Int64Counter
	runs        metric.Int64Counter
	dropped     metric.Int64Counter

	// began is the zero of the monotonic times below.
	began     time.Time
	reachable atomic.Int32 // of the log: stateUnknown, stateNo or stateYes
	failed    map[Part]*failures
	watched   options

	mu        sync.Mutex
	elections map[*Election]struct{}
	workers   map[*Worker]struct{}
}

type failures struct {
	count metric.MeasurementOption
	last  atomic.Int64 // Unix seconds; zero for never
}

const (
	stateUnknown int32 = iota
	stateNo
	stateYes
)

// New makes the instruments. A nil provider gives nil, which measures nothing.
func New(ctx context.Context, provider metric.MeterProvider) (*Metrics, error) {
	if provider == nil {
		return nil, nil
	}
	meter := provider.Meter(Scope)
	m := &Metrics{
		began:     time.Now(),
		failed:    map[Part]*failures{},
		elections: map[*Election]struct{}{},
		workers:   map[*Worker]struct{}{},
		watched:   newOptions(),
	}
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	histogram := func(name, description string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	m.transitions = counter("leaderbridge.election.transitions", "{transition}",
		"Transitions that this process appended to the log.")
	m.leaderless = histogram("leaderbridge.election.leaderless.duration",
		"How long nobody led before a term, by the process that reported its begin.")
	m.handover = histogram("leaderbridge.election.handover.duration",
		"From seeing the election free to holding it, by the process that took it.")
	m.append = histogram("leaderbridge.log.append.duration",
		"How long an append to the log took, all events of one step together.")
	m.grantsTotal = counter("leaderbridge.worker.grant.requests", "{request}",
		"Grants that this process gave to workers, refused, got back or saw lapse.")
	m.errors = counter("leaderbridge.errors", "{error}",
		"Errors by the part of the process that had them.")
	m.dropped = counter("leaderbridge.log.dropped", "{state}",
		"Observed states that could not be kept or reported; the next event tells by its missed.")
	m.starts = counter("leaderbridge.worker.starts", "{start}",
		"Starts of this worker's work, restarts after a failure included.")
	m.ends = counter("leaderbridge.worker.ends", "{end}",
		"Ends of this worker's work, by how it ended.")
	m.runs = counter("leaderbridge.worker.event.runs", "{run}",
		"Runs that this worker made for events, by how they ended.")
	errs = append(errs, m.registerGauges(meter))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	for _, part := range parts {
		f := &failures{count: with(attribute.String(partKey, string(part)))}
		m.failed[part] = f
		m.errors.Add(ctx, 0, f.count)
	}
	return m, nil
}

// Failed counts an error of a part and remembers its time.
func (m *Metrics) Failed(ctx context.Context, part Part) {
	if m == nil {
		return
	}
	f := m.failed[part]
	if f == nil {
		return
	}
	f.last.Store(time.Now().Unix())
	m.errors.Add(ctx, 1, f.count)
}

// LogReachable says whether the log's server answers.
func (m *Metrics) LogReachable(yes bool) {
	if m == nil {
		return
	}
	m.reachable.Store(state(yes))
}

// Standing returns the metrics of an election that this process stands in
// under the given identity. Close it when the candidacy ends.
func (m *Metrics) Standing(e events.Election, identity string) *Election {
	if m == nil {
		return nil
	}
	name := []attribute.KeyValue{
		attribute.String(clusterKey, e.Cluster),
		attribute.String(namespaceKey, e.Namespace),
		attribute.String(leaseKey, e.Lease),
	}
	h := &Election{
		m:       m,
		stands:  true,
		options: newOptions(name...),
		named:   with(name...),
		own:     with(append(name, attribute.String(identityKey, identity))...),
	}
	// A counter that appears with its first increment hides that increment
	// from Prometheus's increase(): all series begin at zero.
	h.options.each(func(o metric.MeasurementOption) { m.transitions.Add(context.Background(), 0, o) })
	m.dropped.Add(context.Background(), 0, h.plain)
	for _, o := range h.grants {
		m.grantsTotal.Add(context.Background(), 0, o)
	}
	m.add(h)
	return h
}

// Watching returns the metrics of an election that this process only observes.
// All such elections share their series. Close it when the election is gone.
func (m *Metrics) Watching() *Election {
	if m == nil {
		return nil
	}
	h := &Election{m: m, options: m.watched}
	m.dropped.Add(context.Background(), 0, h.plain)
	m.add(h)
	return h
}

func (m *Metrics) add(h *Election) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.elections[h] = struct{}{}
}

func (m *Metrics) remove(h *Election) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.elections, h)
}

func state(yes bool) int32 {
	if yes {
		return stateYes
	}
	return stateNo
}
