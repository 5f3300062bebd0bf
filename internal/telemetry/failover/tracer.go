package failover

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Name is the name of a step, and of its span.
type Name string

// The steps of a failover.
const (
	// Drain: the old leader waits for its workers to give their grants back.
	Drain Name = "election drain"
	// Release: the old leader writes that the election is free.
	Release Name = "election release"
	// Observe: a candidate learns that the election is free. It begins when the
	// watch delivered the change or, after a crash, with the last renewal seen,
	// and ends when the candidate may act.
	Observe Name = "election observe"
	// Acquire: a candidate's write of its own name, from the request to the
	// answer.
	Acquire Name = "election acquire"
)

// Step is something that this process did in a failover, and that is over.
type Step struct {
	Name       Name
	Start, End time.Time
	// Epoch is the number of the coming term if it is certain already, as for
	// the release after the log took the stopped-leading before it. Zero keeps
	// the step until it is.
	Epoch uint64
	// Outcome says how it ended, in a word, such as "conflict"; may be empty.
	Outcome string
	// Err is why the step failed. An election lost to another is an outcome,
	// and no error.
	Err error
}

// maxSteps bounds what is kept while the epoch is unknown. A candidate without
// a log may try for days; the latest steps tell most.
const maxSteps = 32

// clockSkew is how far the clocks of two replicas may differ. Nothing but the
// choice of a trace depends on it.
const clockSkew = 10 * time.Second

// maxUnknown bounds the failed appends that are remembered. The log shows within
// a few tries what became of one.
const maxUnknown = 4

// Options say whose failovers a tracer traces.
type Options struct {
	// Provider makes the spans; nil turns tracing off.
	Provider trace.TracerProvider
	Election events.Election
	// Identity is this process's name in the election.
	Identity string
	// Prefix is the first token of the log's subjects.
	Prefix string
}

// Tracer makes the spans of one election's failovers in one process. Methods
// are safe for concurrent use, do nothing on nil, and never wait: the exporter
// works in the background.
type Tracer struct {
	tracer trace.Tracer
	o      Options
	source string
	common trace.SpanStartEventOption

	mu    sync.Mutex
	steps []Step
	// attempts counts the appends since the last one that is known to be made.
	attempts int
	// unknown are the latest appends that failed, any of which may be in the log
	// all the same.
	unknown []*Append
	// current is the append under way; nil when there is none.
	current *Append
	// made is the latest append that succeeded.
	made *Append
	// last is the span of the event that the log ends with.
	last trace.SpanContext
	// coming is the epoch of the coming term, if the log ends with the end of
	// the one before; else zero.
	coming uint64
}

// New returns a tracer, or nil when tracing is off.
func New(o Options) *Tracer {
	if o.Provider == nil {
		return nil
	}
	return &Tracer{
		tracer: o.Provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		o:      o,
		source: o.Election.Source(),
		common: trace.WithAttributes(append(electionAttributes(o.Election), identityKey.String(o.Identity))...),
	}
}

// Step takes a step. It becomes a span at once if it has an epoch, or if the log
// ends with a stopped-leading and so tells the coming one: a leader that releases
// the election may not live to see the next event. Else it waits for that.
func (t *Tracer) Step(ctx context.Context, s Step) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Epoch == 0 {
		s.Epoch = t.coming
	}
	if s.Epoch > 0 {
		ctx, _ := t.root(ctx, s.Epoch, time.Time{})
		t.export(ctx, s)
		return
	}
	if len(t.steps) == maxSteps {
		t.steps = append(t.steps[:0], t.steps[1:]...)
	}
	t.steps = append(t.steps, s)
}

// Settle tells that ev, of whatever process, is now the last event of the log:
// the steps taken so far belong to its failover. It also decides what became of
// an append that ended with an error: its events up to ev are in the log if ev is
// one of them. Tell every event, in order; those of this tracer's own successful
// appends may be left out.
//
// A step that began well after a term did is not part of the failover to that
// term: a process that starts, and has not read the log yet, has already stood
// for the next.
func (t *Tracer) Settle(ctx context.Context, ev events.Event) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sc := SpanContext(ctx, ev)
	if t.made != nil && t.made.made(sc) > 0 {
		return
	}
	if a := t.current; a != nil {
		if n := a.made(sc); n > 0 {
			a.seen = n
			return
		}
		a.later = a.seen > 0
	}
	t.last, t.coming = sc, 0
	if ev.Transition == events.StoppedLeading {
		t.coming = comingEpoch(ev)
	}
	for i, a := range t.unknown {
		if n := a.made(sc); n > 0 {
			t.unknown = t.unknown[i+1:]
			t.finishLocked(a, n)
			return
		}
	}
	if len(t.steps) == 0 {
		return
	}
	ctx, _ = t.root(ctx, comingEpoch(ev), time.Time{})
	var later []Step
	for _, s := range t.steps {
		if ev.Transition != events.StoppedLeading && s.Start.After(ev.Time.Add(clockSkew)) {
			later = append(later, s)
			continue
		}
		t.export(ctx, s)
	}
	t.steps = later
}

// root starts the root span of a failover, see startRoot.
func (t *Tracer) root(ctx context.Context, epoch uint64, start time.Time) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{t.common}
	if !start.IsZero() {
		options = append(options, trace.WithTimestamp(start))
	}
	return startRoot(ctx, t.tracer, t.source, epoch, options...)
}

// export makes a span of a step, below the root in ctx.
func (t *Tracer) export(ctx context.Context, s Step) {
	attributes := make([]attribute.KeyValue, 0, 2)
	if s.Outcome != "" {
		attributes = append(attributes, outcomeKey.String(s.Outcome))
	}
	if s.Err != nil {
		attributes = append(attributes, semconv.ErrorType(s.Err))
	}
	_, span := t.tracer.Start(ctx, string(s.Name), t.common,
		trace.WithTimestamp(s.Start), trace.WithAttributes(attributes...))
	if s.Err != nil {
		span.SetStatus(codes.Error, s.Err.Error())
	}
	span.End(trace.WithTimestamp(s.End))
}

// comingEpoch is the number of the term to which an event's failover leads.
func comingEpoch(ev events.Event) uint64 {
	if ev.Transition == events.StoppedLeading {
		return ev.Epoch + 1
	}
	return ev.Epoch
}
