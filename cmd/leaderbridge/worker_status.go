package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/internal/httpd"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// workerStatus answers for a worker over HTTP.
type workerStatus struct {
	worker   *worker.Worker
	conn     *natsconn.Conn
	election events.Election
	role     string
}

// workerSilence is longer than a worker that runs is ever silent: a second, and
// a margin for machines that are merely slow.
const workerSilence = 15 * time.Second

// Heartbeat implements httpd.Source.
func (w *workerStatus) Heartbeat() (last time.Time, limit time.Duration) {
	return w.worker.Snapshot().Turned, workerSilence
}

// NotReady implements httpd.Source. A worker is ready when it could work: one
// that waits for the grant is.
func (w *workerStatus) NotReady() []string {
	s := w.worker.Snapshot()
	switch {
	case !w.conn.IsConnected():
		return []string{"there is no connection to NATS"}
	case s.LogErr != nil:
		return []string{fmt.Sprintf("the log is not followed: %s", s.LogErr)}
	case !s.Follows:
		return []string{"the log has not been read yet"}
	}
	return nil
}

// Leader implements httpd.Source.
func (w *workerStatus) Leader() string { return w.worker.Snapshot().Leader }

// Status implements httpd.Source.
func (w *workerStatus) Status() httpd.Status {
	s := w.worker.Snapshot()
	st := httpd.Status{
		Identity: w.worker.Identity(),
		Version:  buildinfo.Version(),
		Elections: []httpd.Election{{
			Cluster: w.election.Cluster, Namespace: w.election.Namespace, Lease: w.election.Lease,
			Leader: s.Leader, Epoch: s.LeaderEpoch,
		}},
		Worker: &httpd.Worker{Role: w.role, Holding: s.Holds, Epoch: s.Epoch, Since: s.Since},
	}
	if s.LogErr != nil {
		st.Errors = []httpd.Error{{Part: "log", Error: s.LogErr.Error()}}
	}
	return st
}

// counted counts what becomes of a task.
type counted struct {
	task
	metrics func() *instruments.Worker
}

func (c *counted) forTerm(ctx context.Context, t worker.Term) error {
	c.metrics().Started(ctx)
	err := c.task.forTerm(ctx, t)
	c.metrics().Ended(context.WithoutCancel(ctx), outcomeOf(ctx, err))
	return err
}

func (c *counted) forEvent(ctx context.Context, t worker.Term, event []byte, publish func(context.Context, []byte) error) error {
	err := c.task.forEvent(ctx, t, event, publish)
	c.metrics().Ran(context.WithoutCancel(ctx), outcomeOf(ctx, err))
	return err
}

func outcomeOf(ctx context.Context, err error) instruments.Outcome {
	switch {
	case ctx.Err() != nil, errors.Is(err, worker.ErrTermOver):
		return instruments.WorkStopped
	case err != nil:
		return instruments.WorkFailed
	}
	return instruments.WorkDone
}
