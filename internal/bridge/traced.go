package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// append measures an append and gives its events their trace context.
func (b *Bridge) append(_ events.Election, evs []events.Event) func(error) {
	b.awaitOffice(evs)
	began := time.Now()
	spans := b.tracer.Publish(context.Background(), evs)
	return func(err error) {
		took := time.Since(began)
		spans.Done(err)
		if err == nil {
			for i, ev := range evs {
				b.cfg.Logger.InfoContext(spans.Context(i), "published", "transition", string(ev.Transition), "epoch", ev.Epoch, "about", ev.Who(), "reason", string(ev.Reason))
				b.metrics.Transition(spans.Context(i), ev)
			}
		}
		b.metrics.Appended(spans.Context(0), took, err)
		b.metrics.SetQueued(b.recorder.Stats().Queued)
	}
}

// officeTimeout bounds how long a term's first events wait for its services. It
// takes microseconds unless the connection is in trouble.
const officeTimeout = 100 * time.Millisecond

// awaitOffice waits until the leader's services are there, if this is what tells
// of them. On one connection the server sees them in this order.
func (b *Bridge) awaitOffice(evs []events.Event) {
	term := b.elector.Term()
	if term == nil || !slices.ContainsFunc(evs, func(e events.Event) bool {
		return e.Transition == events.BecameLeader && e.AcquireTime.Equal(term.Acquired())
	}) {
		return
	}
	timeout := time.NewTimer(officeTimeout)
	defer timeout.Stop()
	select {
	case <-b.gate.of(term):
	case <-term.Ended():
	case <-timeout.C:
	}
}

// seen tells the tracer of every event in the log.
func (b *Bridge) seen(ev events.Event) { b.tracer.Settle(context.Background(), ev) }

// waited tells the tracer that a lease ran out, and how long this replica has
// waited for that since it last saw a renewal.
func (b *Bridge) waited(s election.State) {
	b.tracer.Step(context.Background(), failover.Step{
		Name: failover.Observe, Start: s.At.Add(-s.Observation.Record.Duration), End: s.At, Outcome: "lapsed",
	})
}

// wrote tells the tracer of the writes that take and release the lock, and of
// how long it took to learn that it was free.
func (b *Bridge) wrote(w election.Write) {
	step := failover.Step{Name: failover.Acquire, Start: w.Start, End: w.End}
	switch {
	case errors.Is(w.Err, election.ErrConflict):
		step.Outcome = "conflict"
	case w.Err != nil:
		step.Err = w.Err
	}
	if w.Release {
		step.Name = failover.Release
	} else if free := b.free.Load(); free != nil {
		b.tracer.Step(context.Background(), failover.Step{Name: failover.Observe, Start: *free, End: w.Start})
	}
	b.tracer.Step(context.Background(), step)
}
