package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/internal/bridge"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/internal/telemetry"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// ready bounds the wait for whatever should take moments.
const ready = 30 * time.Second

// seat is what one process of ours has: connections of its own to the API
// server and to NATS. Candidates follow one another on it, so that no round
// pays for a process's start.
type seat struct {
	s    *site
	e    events.Election
	lock election.Lock
	nc   *nats.Conn
}

// measured is the telemetry of a process, as the command has it.
func (s *site) measured() *telemetry.Telemetry {
	t, err := telemetry.Setup(s.ctx, telemetry.Options{Version: "bench", Instance: s.name})
	s.must(err)
	return t
}

func (s *site) seat(e events.Election) *seat {
	client, err := election.NewLeaseClient(s.config())
	s.must(err)
	lock, err := election.NewLeaseLock(client, e.Namespace, e.Lease)
	s.must(err)
	return &seat{s: s, e: e, lock: lock, nc: s.connect()}
}

// candidate is one bridge and what it says of itself.
type candidate struct {
	*bridge.Bridge
	stop context.CancelFunc
	done chan error
	// won is when the write that took the Lease was answered, and stored when
	// the log had the term: nanoseconds since the epoch.
	won, stored atomic.Int64
}

// stand starts a candidate, and returns when it leads or sees and follows
// everything that a standby does.
func (p *seat) stand(t *telemetry.Telemetry, options election.Options) *candidate {
	c := &candidate{done: make(chan error, 1)}
	options.Identity = fmt.Sprintf("ours-%d", p.s.root.names.Add(1))
	options.Hooks.Wrote = func(w election.Write) {
		if !w.Release && w.Err == nil {
			c.won.Store(w.End.UnixNano())
		}
	}
	var err error
	c.Bridge, err = bridge.New(p.lock, p.nc, logbook.New(p.nc, events.Options{}, nil), bridge.Config{
		Election: p.e, Options: options, Prefix: events.DefaultPrefix,
		Metrics: t.Metrics, Logger: slog.New(published{c}),
	})
	p.s.must(err)
	ctx, stop := context.WithCancel(p.s.ctx)
	c.stop = stop
	p.s.Cleanup(stop)
	go func() { c.done <- c.Run(ctx) }()
	testenv.Eventually(p.s, ready, c.ready)
	return c
}

func (c *candidate) ready() error {
	if not := c.NotReady(); len(not) > 0 {
		return errors.New(strings.Join(not, "; "))
	}
	if s := c.Elector().Snapshot(); !s.Watching {
		return errors.New("not watching")
	}
	return nil
}

// times returns when the candidate won the Lease and when it had stored its
// term, and false if it cannot tell: the answer to its write may have been lost,
// and another may have written the log. The watch may tell of the Lease before
// the write is answered.
func (c *candidate) times(s *site) (won, stored time.Time, ok bool) {
	for range 100 {
		if w, t := c.won.Load(), c.stored.Load(); w != 0 && t != 0 {
			return time.Unix(0, w), time.Unix(0, t), true
		}
		s.pause(5 * time.Millisecond)
	}
	return time.Time{}, time.Time{}, false
}

// published is a log handler that notes when the bridge says that the beginning
// of a term is stored.
type published struct{ c *candidate }

func (p published) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (p published) WithAttrs([]slog.Attr) slog.Handler           { return p }
func (p published) WithGroup(string) slog.Handler                { return p }

func (p published) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "published" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "transition" && a.Value.String() == string(events.BecameLeader) {
				p.c.stored.Store(r.Time.UnixNano())
			}
			return true
		})
	}
	return nil
}

// openLog makes the log, as the first process does that comes along.
func (s *site) openLog() {
	_, err := events.Open(s.ctx, s.connect(), events.Options{})
	s.must(err)
}

func (s *site) election(namespace, name string) events.Election {
	return events.Election{Cluster: "bench", Namespace: namespace, Lease: name}
}
