package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/claim"
)

// part is how long after an event what a worker does counts as a part of its
// failover. Later it has other causes: another worker has left, or this one
// has just come.
const part = time.Minute

// spans makes the spans of a worker. The loop's goroutine owns it.
type spans struct {
	consumer *failover.Consumer
	election events.Election
	// begun and ended are contexts with the spans of the latest begin and end of
	// a term, and their epochs.
	begun, ended cause
	// known is the latest term that was read of, be it an old one.
	known uint64
	stop  trace.Span // nil unless the handler is being stopped
}

type cause struct {
	ctx   context.Context
	epoch uint64
	at    time.Time
}

// of returns the context of a cause that is recent and of that epoch, and an
// empty one else.
func (c cause) of(is bool) context.Context {
	if c.ctx == nil || !is || time.Since(c.at) > part {
		return context.Background()
	}
	return c.ctx
}

func newSpans(o Options) *spans {
	relation := failover.ChildOf
	if o.TraceLinks {
		relation = failover.LinkTo
	}
	return &spans{election: o.Election, consumer: failover.NewConsumer(failover.ConsumerOptions{
		Provider: o.Tracers, Prefix: o.Log.Prefix, Role: o.Role, Relation: relation,
	})}
}

// take begins the span of an event. End it when the event has been dealt with.
func (s *spans) take(ev events.Event) (end func()) {
	s.known = max(s.known, ev.Epoch)
	if s.consumer == nil || time.Since(ev.Time) > part {
		return func() {} // the last state, when the worker came later
	}
	ctx, span := s.consumer.Process(context.Background(), ev)
	c := cause{ctx, ev.Epoch, time.Now()}
	switch {
	case ev.Transition == events.StoppedLeading:
		s.ended = c
	case ev.Epoch > s.begun.epoch: // became-leader, as a rule
		s.begun = c
	}
	return func() { span.End() }
}

// start begins the span of a start. It is ended by any goroutine, once.
func (s *spans) start(epoch uint64) (ended func()) {
	ctx := s.begun.of(s.begun.epoch == epoch)
	if s.known+1 == epoch {
		// The grant was quicker than the news of the term.
		ctx = s.consumer.Failover(ctx, s.election, epoch)
	}
	_, span := s.consumer.StartWorker(ctx, s.election, epoch)
	return func() { span.End() }
}

// cancel begins the span of a stop.
func (s *spans) cancel(epoch uint64, why claim.Why) {
	switch why {
	case claim.Stopping, claim.Refusal:
		_, s.stop = s.consumer.LeaveWorker(context.Background(), s.election, epoch, why.Word())
	case claim.TermEnded, claim.Draining, claim.Lapsing:
		// The end that was heard of may be that of a later term too.
		_, s.stop = s.consumer.StopWorker(s.ended.of(s.ended.epoch == epoch), s.election, epoch, why.Word())
	}
}

// stopped ends the span of a stop, if there is one.
func (s *spans) stopped(err error) {
	if s.stop == nil {
		return
	}
	if err != nil {
		s.stop.SetStatus(codes.Error, err.Error())
	}
	s.stop.End()
	s.stop = nil
}
