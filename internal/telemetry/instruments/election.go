package instruments

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Election reports on one election. Methods are safe for concurrent use, and
// do nothing on nil. The setters keep the latest value and allocate nothing.
type Election struct {
	m      *Metrics
	stands bool
	// named and own label the gauges of an election that the process stands in,
	// own with its identity too: two processes that both claim to lead must be
	// two series.
	named, own metric.MeasurementOption
	options

	leading   atomic.Bool
	held      atomic.Int32 // stateUnknown, stateNo or stateYes
	epoch     atomic.Uint64
	queued    atomic.Int64
	granted   atomic.Int64
	watchSeen atomic.Int64 // nanoseconds after Metrics.began; zero for never
}

// SetLeading says whether this process leads.
func (e *Election) SetLeading(yes bool) {
	if e == nil {
		return
	}
	e.leading.Store(yes)
}

// SetHeld says whether somebody leads: the record names a holder whose lease
// runs. Before the first call it counts as unknown.
func (e *Election) SetHeld(yes bool) {
	if e == nil {
		return
	}
	e.held.Store(state(yes))
}

// SetEpoch tells the number of the latest term in the log.
func (e *Election) SetEpoch(n uint64) {
	if e == nil {
		return
	}
	e.epoch.Store(n)
}

// SetQueued tells how many observed transitions wait for the log.
func (e *Election) SetQueued(n int) {
	if e == nil {
		return
	}
	e.queued.Store(int64(n))
}

// SetGrants tells how many grants this process has given that still run.
func (e *Election) SetGrants(n int) {
	if e == nil {
		return
	}
	e.granted.Store(int64(n))
}

// WatchSeen tells when the state of the lock was last known to be current: by
// a change that the watch delivered, or by a read.
func (e *Election) WatchSeen(at time.Time) {
	if e == nil {
		return
	}
	e.watchSeen.Store(max(1, int64(at.Sub(e.m.began))))
}

// Transition counts an event that this process appended, and for the begin of
// a term the time without a leader. Give the context of the publish span.
func (e *Election) Transition(ctx context.Context, ev events.Event) {
	if e == nil {
		return
	}
	kind, ok := e.byReason[ev.Transition]
	if !ok {
		return
	}
	labels, ok := kind[ev.Reason]
	if !ok {
		labels = kind[otherReason]
	}
	e.m.transitions.Add(ctx, 1, labels)
	if ev.Transition == events.BecameLeader && ev.LeaderlessMillis != nil {
		e.m.leaderless.Record(ctx, float64(*ev.LeaderlessMillis)/1000, e.leaderless(ev.Reason))
	}
}

// Handover tells how long this process took from seeing the election free to
// holding it.
func (e *Election) Handover(ctx context.Context, d time.Duration) {
	if e == nil {
		return
	}
	e.m.handover.Record(ctx, d.Seconds(), e.plain)
}

// Appended tells how long an append took and how it ended.
func (e *Election) Appended(ctx context.Context, d time.Duration, err error) {
	if e == nil {
		return
	}
	outcome := outcomeOK
	switch {
	case errors.Is(err, events.ErrBehind):
		outcome = outcomeBehind
	case err != nil:
		outcome = outcomeError
	}
	e.m.append.Record(ctx, d.Seconds(), e.appends[outcome])
}

// Dropped counts a state that could not be kept or reported.
func (e *Election) Dropped(ctx context.Context) {
	if e == nil {
		return
	}
	e.m.dropped.Add(ctx, 1, e.plain)
}

// Grant counts what became of a worker's request.
func (e *Election) Grant(ctx context.Context, outcome GrantOutcome) {
	if e == nil {
		return
	}
	if labels, ok := e.grants[outcome]; ok {
		e.m.grantsTotal.Add(ctx, 1, labels)
	}
}

// Close takes the election out of the gauges. Its counters stay.
func (e *Election) Close() {
	if e == nil {
		return
	}
	e.m.remove(e)
}

// options are the label sets of one election, made once, so that recording
// allocates none.
type options struct {
	plain     metric.MeasurementOption
	byReason  map[events.Transition]map[events.Reason]metric.MeasurementOption
	durations map[events.Reason]metric.MeasurementOption
	appends   map[string]metric.MeasurementOption
	grants    map[GrantOutcome]metric.MeasurementOption
}

func newOptions(name ...attribute.KeyValue) options {
	o := options{
		plain:     with(name...),
		byReason:  map[events.Transition]map[events.Reason]metric.MeasurementOption{},
		durations: map[events.Reason]metric.MeasurementOption{},
		appends:   map[string]metric.MeasurementOption{},
		grants:    map[GrantOutcome]metric.MeasurementOption{},
	}
	name = slices.Clip(name)
	for transition, known := range reasons {
		labels := map[events.Reason]metric.MeasurementOption{}
		for _, reason := range append(slices.Clip(known), otherReason) {
			labels[reason] = with(append(name,
				attribute.String(transitionKey, string(transition)),
				attribute.String(reasonKey, string(reason)))...)
		}
		o.byReason[transition] = labels
	}
	for _, reason := range append(slices.Clip(starts), otherReason) {
		o.durations[reason] = with(append(name, attribute.String(reasonKey, string(reason)))...)
	}
	for _, outcome := range []string{outcomeOK, outcomeBehind, outcomeError} {
		o.appends[outcome] = with(append(name, attribute.String(outcomeKey, outcome))...)
	}
	for _, outcome := range grantOutcomes {
		o.grants[outcome] = with(append(name, attribute.String(outcomeKey, string(outcome)))...)
	}
	return o
}

func (o options) leaderless(reason events.Reason) metric.MeasurementOption {
	if labels, ok := o.durations[reason]; ok {
		return labels
	}
	return o.durations[otherReason]
}

// each calls f with the label sets of every known transition and reason.
func (o options) each(f func(metric.MeasurementOption)) {
	for transition, known := range reasons {
		for _, reason := range known {
			f(o.byReason[transition][reason])
		}
	}
}

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}
