package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// append measures an append and gives its events their trace context.
func (b *Bridge) append(_ events.Election, evs []events.Event) func(error) {
	began := time.Now()
	spans := b.tracer.Publish(context.Background(), evs)
	return func(err error) {
		spans.Done(err)
		b.metrics.Appended(spans.Context(0), time.Since(began), err)
		b.metrics.SetQueued(b.recorder.Stats().Queued)
		if err != nil {
			return
		}
		for i, ev := range evs {
			b.metrics.Transition(spans.Context(i), ev)
			b.cfg.Logger.InfoContext(spans.Context(i), "published", "transition", string(ev.Transition), "epoch", ev.Epoch, "about", ev.Who(), "reason", string(ev.Reason))
		}
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
