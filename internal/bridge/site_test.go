package bridge_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/internal/bridge"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var scheduler = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}

// site is an election on a real NATS server: bridges that stand for it, and
// workers.
type site struct {
	t      testing.TB
	server *natsenv.Server
	log    *slog.Logger
}

func newSite(t testing.TB) *site {
	t.Helper()
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	return &site{t: t, server: natsenv.Start(t), log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))}
}

// running is a bridge or a worker that runs.
type running struct {
	nc   *nats.Conn
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// end stops it cleanly and waits.
func (r *running) end() error {
	r.stop()
	<-r.done
	return r.err
}

func (s *site) start(nc *nats.Conn, run func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{nc: nc, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = run(ctx)
	}()
	s.t.Cleanup(func() { _ = r.end() })
	return r
}

// candidate is a bridge that stands for the election.
type candidate struct {
	*running
	*bridge.Bridge
}

func (s *site) stand(id string) *candidate {
	s.t.Helper()
	return s.standWith(election.Options{
		Identity: id, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
	})
}

func (s *site) standWith(o election.Options) *candidate {
	s.t.Helper()
	return s.standOn(s.server.Connect(s.t), o)
}

// standOn starts a candidate whose log and services use a connection; its lock
// has another.
func (s *site) standOn(nc *nats.Conn, o election.Options) *candidate {
	s.t.Helper()
	js := s.server.JetStream(s.t)
	lock, err := natskv.New(js, natskv.Options{Namespace: scheduler.Namespace, Name: scheduler.Lease})
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := bridge.New(lock, nc, logbook.New(nc, events.Options{}, nil), bridge.Config{
		Election: scheduler, Prefix: events.DefaultPrefix, Logger: s.log.With("candidate", o.Identity), Options: o,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return &candidate{s.start(nc, b.Run), b}
}

// leads waits until the candidate leads.
func (s *site) leads(c *candidate) {
	s.t.Helper()
	testenv.Eventually(s.t, 20*time.Second, func() error {
		if c.Elector().Term() == nil {
			return fmt.Errorf("%s does not lead", c.Elector().Identity())
		}
		return nil
	})
}

// shift is one run of a handler.
type shift struct {
	role, worker string
	epoch        uint64
	began, ended boottime.Instant // ended is zero while it runs
}

// rota records who worked when, and complains when two do at once.
type rota struct {
	t    testing.TB
	mu   sync.Mutex
	runs []*shift
}

func (r *rota) begin(t worker.Term) *shift {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.runs {
		if s.role == t.Role && s.ended == 0 {
			r.t.Errorf("role %s: %s begins in epoch %d while %s works in epoch %d", t.Role, t.Identity, t.Epoch, s.worker, s.epoch)
		}
		if s.role == t.Role && s.epoch > t.Epoch {
			r.t.Errorf("role %s: epoch %d after %d", t.Role, t.Epoch, s.epoch)
		}
	}
	s := &shift{role: t.Role, worker: t.Identity, epoch: t.Epoch, began: boottime.Now()}
	r.runs = append(r.runs, s)
	return s
}

func (r *rota) end(s *shift) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ended = boottime.Now()
}

// working returns who is at work in a role.
func (r *rota) working(role string) *shift {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.runs {
		if s.role == role && s.ended == 0 {
			return new(*s)
		}
	}
	return nil
}

func (r *rota) all() []shift {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]shift, len(r.runs))
	for i, s := range r.runs {
		all[i] = *s
	}
	return all
}

// handle works until it is told to stop.
func (r *rota) handle(ctx context.Context, t worker.Term) error {
	s := r.begin(t)
	defer r.end(s)
	<-ctx.Done()
	return context.Cause(ctx)
}

// work starts a worker on a connection.
func (s *site) work(nc *nats.Conn, id, role string, h worker.Handler) *running {
	s.t.Helper()
	w, err := worker.New(nc, worker.Options{Election: scheduler, Role: role, Identity: id, Handler: h, Logger: s.log.With("at", id)})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.start(nc, w.Run)
}

// await waits until somebody works in the role in a later epoch than after.
func (s *site) await(r *rota, role string, after uint64) *shift {
	s.t.Helper()
	var found *shift
	testenv.Eventually(s.t, 20*time.Second, func() error {
		found = r.working(role)
		if found == nil || found.epoch <= after {
			return fmt.Errorf("nobody works in role %s after epoch %d: %v", role, after, found)
		}
		return nil
	})
	return found
}

// overwrite puts another holder into the lock, as an administrator might, and
// takes it out again.
func (s *site) overwrite() {
	s.t.Helper()
	lock, err := natskv.New(s.server.JetStream(s.t), natskv.Options{Namespace: scheduler.Namespace, Name: scheduler.Lease})
	if err != nil {
		s.t.Fatal(err)
	}
	write := func(change func(*election.Record)) {
		s.t.Helper()
		testenv.Eventually(s.t, 10*time.Second, func() error {
			obs, err := lock.Read(s.t.Context())
			if err != nil {
				return err
			}
			rec := obs.Record
			change(&rec)
			_, err = lock.Update(s.t.Context(), obs, rec)
			return err
		})
	}
	write(func(r *election.Record) { r.Holder, r.Acquired = "intruder", time.Now() })
	write(func(r *election.Record) { r.Holder = "" })
}
