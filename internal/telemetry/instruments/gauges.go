package instruments

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// registerGauges makes the instruments that are computed when collected.
func (m *Metrics) registerGauges(meter metric.Meter) error {
	var errs []error
	number := func(name, unit, description string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return g
	}
	seconds := func(name, description string) metric.Float64ObservableGauge {
		g, err := meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
		errs = append(errs, err)
		return g
	}
	leader := number("leaderbridge.election.leader", "",
		"1 while this process leads the election, else 0.")
	held := number("leaderbridge.election.held", "",
		"1 while somebody leads the election as far as this process knows, else 0.")
	epoch := number("leaderbridge.election.epoch", "",
		"The number of the latest term that the log tells of.")
	staleness := seconds("leaderbridge.election.watch.staleness",
		"How long ago the lock's state was last known to be current. Without labels: the worst of all watched elections.")
	grants := number("leaderbridge.worker.grants", "{grant}",
		"Grants that this process has given to workers and that still run.")
	holding := number("leaderbridge.worker.holding", "",
		"1 while this worker holds the grant of its role, else 0.")
	watched := number("leaderbridge.watch.elections", "{election}",
		"Elections that this process only observes.")
	vacant := number("leaderbridge.watch.leaderless", "{election}",
		"Elections that this process only observes and that nobody leads.")
	queue := number("leaderbridge.log.queue.depth", "{transition}",
		"Observed transitions that wait for the log, of all elections.")
	reachable := number("leaderbridge.log.reachable", "",
		"1 while the log's server answers, else 0.")
	lastError := seconds("leaderbridge.last_error.timestamp",
		"Unix time of the last error of a part of the process; absent when it had none.")
	if err := errors.Join(errs...); err != nil {
		return err
	}

	observe := func(_ context.Context, o metric.Observer) error {
		now := int64(time.Since(m.began))
		m.mu.Lock()
		defer m.mu.Unlock()
		var queued, others, without int64
		var stalest time.Duration
		var seen bool
		for e := range m.elections {
			queued += e.queued.Load()
			age, known := e.staleness(now)
			if !e.stands {
				others++
				if e.held.Load() == stateNo {
					without++
				}
				stalest, seen = max(stalest, age), seen || known
				continue
			}
			o.ObserveInt64(leader, toInt(e.leading.Load()), e.own)
			if s := e.held.Load(); s != stateUnknown {
				o.ObserveInt64(held, toInt(s == stateYes), e.named)
			}
			if n := e.epoch.Load(); n > 0 {
				o.ObserveInt64(epoch, int64(n), e.named) // #nosec G115 -- at most events.MaxEpoch
			}
			o.ObserveInt64(grants, e.granted.Load(), e.named)
			if known {
				o.ObserveFloat64(staleness, age.Seconds(), e.named)
			}
		}
		for w := range m.workers {
			o.ObserveInt64(holding, toInt(w.holds()), w.named)
		}
		o.ObserveInt64(queue, queued)
		o.ObserveInt64(watched, others)
		o.ObserveInt64(vacant, without)
		if seen {
			o.ObserveFloat64(staleness, stalest.Seconds())
		}
		if s := m.reachable.Load(); s != stateUnknown {
			o.ObserveInt64(reachable, toInt(s == stateYes))
		}
		for part, f := range m.failed {
			if at := f.last.Load(); at > 0 {
				o.ObserveFloat64(lastError, float64(at), metric.WithAttributes(attribute.String(partKey, string(part))))
			}
		}
		return nil
	}
	_, err := meter.RegisterCallback(observe, leader, held, epoch, staleness, grants, holding,
		watched, vacant, queue, reachable, lastError)
	return err
}

// staleness returns how long ago the lock was last known, and whether it ever
// was.
func (e *Election) staleness(now int64) (time.Duration, bool) {
	seen := e.watchSeen.Load()
	if seen == 0 {
		return 0, false
	}
	return max(0, time.Duration(now-seen)), true
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
