package instruments

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Outcome is how a worker's work, or one run for an event, has ended.
type Outcome string

// The outcomes.
const (
	// WorkDone: it is complete, or the run has handled its event.
	WorkDone Outcome = "done"
	// WorkStopped: it was asked to stop.
	WorkStopped Outcome = "stopped"
	// WorkFailed: anything else.
	WorkFailed Outcome = "failed"
)

var workOutcomes = []Outcome{WorkDone, WorkStopped, WorkFailed}

// Worker reports on one worker. Methods are safe for concurrent use, and do
// nothing on nil.
type Worker struct {
	m         *Metrics
	holds     func() bool
	named     metric.MeasurementOption
	byOutcome map[Outcome]metric.MeasurementOption
}

// Working returns the metrics of a worker in a role of an election. holds is
// asked from any goroutine, and must not wait. Close it when the worker ends.
func (m *Metrics) Working(e events.Election, role string, holds func() bool) *Worker {
	if m == nil {
		return nil
	}
	name := []attribute.KeyValue{
		attribute.String(clusterKey, e.Cluster),
		attribute.String(namespaceKey, e.Namespace),
		attribute.String(leaseKey, e.Lease),
		attribute.String(roleKey, role),
	}
	w := &Worker{m: m, holds: holds, named: with(name...), byOutcome: map[Outcome]metric.MeasurementOption{}}
	// A counter that appears with its first increment hides that increment
	// from Prometheus's increase(): all series begin at zero.
	m.starts.Add(context.Background(), 0, w.named)
	for _, o := range workOutcomes {
		w.byOutcome[o] = with(append(name, attribute.String(outcomeKey, string(o)))...)
		m.ends.Add(context.Background(), 0, w.byOutcome[o])
		m.runs.Add(context.Background(), 0, w.byOutcome[o])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workers[w] = struct{}{}
	return w
}

// Started counts a start of the work.
func (w *Worker) Started(ctx context.Context) {
	if w == nil {
		return
	}
	w.m.starts.Add(ctx, 1, w.named)
}

// Ended counts an end of the work.
func (w *Worker) Ended(ctx context.Context, o Outcome) {
	if w == nil {
		return
	}
	w.m.ends.Add(ctx, 1, w.byOutcome[o])
}

// Ran counts a run for an event.
func (w *Worker) Ran(ctx context.Context, o Outcome) {
	if w == nil {
		return
	}
	w.m.runs.Add(ctx, 1, w.byOutcome[o])
}

// Close takes the worker out of the gauges. Its counters stay.
func (w *Worker) Close() {
	if w == nil {
		return
	}
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	delete(w.m.workers, w)
}
