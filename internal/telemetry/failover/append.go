package failover

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Append is one append under way. It belongs to the goroutine that appends.
type Append struct {
	t *Tracer
	// spans and ctxs are those of the events, one each.
	spans []trace.Span
	ctxs  []context.Context
	// ends is for each event the epoch of the coming term if it ends a term,
	// else zero.
	ends []uint64
	// parts are the failovers that the events belong to, in order.
	parts []part
	// seen is how many of the events were seen in the log before the outcome
	// was known, and later tells that the log has gone on otherwise since.
	seen  int
	later bool
}

// part is what an append tells about one failover.
type part struct {
	ctx  context.Context
	root trace.Span
	// end is the time of the part's last event.
	end time.Time
	// began is the place of the term's became-leader in the append, from 1;
	// zero if the part has none. It gives the right to export the root span.
	began int
}

// Publish begins the spans of an append, and writes the context of each event's
// own span into the event. Call [Append.Done] with the append's result. A nil
// tracer leaves the events as they are and returns nil.
func (t *Tracer) Publish(ctx context.Context, evs []events.Event) *Append {
	if t == nil || len(evs) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts++

	a := &Append{
		t:     t,
		spans: make([]trace.Span, 0, len(evs)),
		ctxs:  make([]context.Context, 0, len(evs)),
	}
	var epoch uint64
	before := t.last
	for i := range evs {
		ev := &evs[i]
		if next := comingEpoch(*ev); i == 0 || next != epoch {
			epoch = next
			ctx, root := t.root(ctx, epoch, t.vacantSince(evs[i:], epoch))
			a.parts = append(a.parts, part{ctx: ctx, root: root})
		}
		p := &a.parts[len(a.parts)-1]
		p.end = ev.Time
		if ev.Transition == events.StoppedLeading {
			a.ends = append(a.ends, epoch)
		} else {
			a.ends = append(a.ends, 0)
		}
		if ev.Transition == events.BecameLeader {
			p.began = i + 1
			p.root.SetAttributes(leaderKey.String(ev.Leader), reasonKey.String(string(ev.Reason)))
			if ev.PreviousLeader != "" {
				p.root.SetAttributes(previousLeaderKey.String(ev.PreviousLeader))
			}
		}
		options := []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindProducer), t.common,
			trace.WithAttributes(messageAttributes(t.o.Prefix, *ev)...),
			trace.WithAttributes(semconv.MessagingOperationName(publish), semconv.MessagingOperationTypeSend),
		}
		if before.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: before}))
		}
		spanCtx, span := t.tracer.Start(p.ctx, publish+" "+template(t.o.Prefix, ev.Transition), options...)
		a.ctxs = append(a.ctxs, spanCtx)
		a.spans = append(a.spans, span)
		before = span.SpanContext()
		propagation.TraceContext{}.Inject(spanCtx, eventCarrier{ev}) //nolint:contextcheck // the event carries its own span
	}
	t.current = a
	return a
}

// vacantSince returns when the time without a leader began, for the root span
// of the failover that the first of evs belong to; zero if they do not tell.
func (t *Tracer) vacantSince(evs []events.Event, epoch uint64) time.Time {
	for _, ev := range evs {
		if comingEpoch(ev) != epoch {
			break
		}
		if ev.Transition != events.BecameLeader {
			continue
		}
		if ev.LeaderlessMillis != nil {
			return ev.Time.Add(-time.Duration(*ev.LeaderlessMillis) * time.Millisecond)
		}
		// Nothing is known of a time without a leader, as for the first term:
		// the failover begins with what this process did for it.
		if len(t.steps) > 0 && t.steps[0].Start.Before(ev.Time) {
			return t.steps[0].Start
		}
		return ev.Time
	}
	return time.Time{}
}

// Context returns the context of the i-th event's span, for what is to be found
// by its trace id, such as metrics and log lines. A nil Append returns the
// background context.
func (a *Append) Context(i int) context.Context {
	if a == nil {
		return context.Background()
	}
	return a.ctxs[i]
}

// Done ends the append. Without an error its spans, and those of the steps
// before it, are exported. After an error, which may mean that only the answer
// was lost, what the log shows decides: see [Tracer.Settle].
func (a *Append) Done(err error) {
	if a == nil {
		return
	}
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == a {
		t.current = nil
	}
	switch {
	case err == nil:
		t.finishLocked(a, len(a.spans))
		return
	case a.seen > 0:
		last, coming := t.last, t.coming
		t.finishLocked(a, a.seen)
		if a.later {
			t.last, t.coming = last, coming
		}
		return
	}
	if len(t.unknown) == maxUnknown {
		t.unknown = append(t.unknown[:0], t.unknown[1:]...)
	}
	t.unknown = append(t.unknown, a)
}

// made returns how many of the append's events are in a log that ends with the
// event of the given span: zero if that is of another append.
func (a *Append) made(sc trace.SpanContext) int {
	for i, span := range a.spans {
		if own := span.SpanContext(); own.SpanID() == sc.SpanID() && own.TraceID() == sc.TraceID() {
			return i + 1
		}
	}
	return 0
}

// finishLocked exports the spans of the first n events of an append, which were
// made, and the steps that led to them.
func (t *Tracer) finishLocked(a *Append, n int) {
	for _, s := range t.steps {
		t.export(a.parts[a.partOf(s)].ctx, s)
	}
	for _, span := range a.spans[:n] {
		if t.attempts > 1 {
			span.SetAttributes(attemptsKey.Int(t.attempts))
		}
		span.End()
	}
	for _, p := range a.parts {
		if p.began > 0 && p.began <= n {
			p.root.End(trace.WithTimestamp(p.end))
		}
	}
	t.steps, t.attempts = nil, 0
	t.made, t.last, t.coming = a, a.spans[n-1].SpanContext(), a.ends[n-1]
}

// partOf returns the failover that a step belongs to: the first that was not
// over when the step began. After an outage of the log one append may tell of
// several.
func (a *Append) partOf(s Step) int {
	for i, p := range a.parts {
		if !s.Start.After(p.end) {
			return i
		}
	}
	return len(a.parts) - 1
}
