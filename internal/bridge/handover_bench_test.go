package bridge_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// BenchmarkWorkerHandover measures how long a role is idle at a clean hand-over:
// from the moment at which the old worker's handler has returned until the new
// one's is called, on a NATS lock. "leader" is a leader that ends: the end of the
// term, the release, the acquisition and the begin lie in between, and then
// there is a grant from the next leader. "worker" is a worker that ends while
// the leader stays. "client-go" is what people have today: client-go's elector
// on the same lock, with its own durations, from the end of one callback until
// the next one is called.
func BenchmarkWorkerHandover(b *testing.B) {
	b.Run("leader", func(b *testing.B) {
		s, h := newHandover(b)
		leader := s.stand("a")
		for _, id := range []string{"w1", "w2"} {
			s.work(s.server.Connect(b), id, "sync", h.handle)
		}
		now := h.next(b, 0)
		for b.Loop() {
			b.StopTimer()
			old := leader
			leader = s.stand("s" + strconv.Itoa(len(h.idle)))
			testenv.Eventually(b, 20*time.Second, func() error {
				if snapshot := leader.Elector().Snapshot(); !snapshot.Known || snapshot.State.Holder() == "" {
					return errors.New("the standby has not seen the leader yet")
				}
				return nil
			})
			b.StartTimer()
			now = h.next(b, now.epoch, func() { _ = old.end() })
		}
		h.report(b)
	})
	b.Run("worker", func(b *testing.B) {
		s, h := newHandover(b)
		s.stand("a")
		nc := s.server.Connect(b)
		worker := s.work(nc, "w", "sync", h.handle)
		h.next(b, 0)
		for b.Loop() {
			// The next one waits already when the one before it ends.
			old := worker
			worker = s.work(nc, "w", "sync", h.handle)
			h.next(b, 0, func() { _ = old.end() })
		}
		h.report(b)
	})
	b.Run("client-go", func(b *testing.B) {
		klog.SetSlogLogger(slog.New(slog.DiscardHandler))
		s, h := newHandover(b)
		leader, _ := s.clientGo("a", h)
		h.next(b, 0)
		for b.Loop() {
			b.StopTimer()
			old := leader
			var looks <-chan struct{}
			leader, looks = s.clientGo("s"+strconv.Itoa(len(h.idle)), h)
			<-looks
			b.StartTimer()
			h.next(b, 0, func() { _ = old.end() })
		}
		h.report(b)
	})
}

// handover records when handlers begin and end.
type handover struct {
	began chan beginning
	ended chan boottime.Instant
	idle  []time.Duration
}

type beginning struct {
	at    boottime.Instant
	epoch uint64
}

func newHandover(b *testing.B) (*site, *handover) {
	s := newSite(b)
	s.log = slog.New(slog.DiscardHandler)
	return s, &handover{began: make(chan beginning, 16), ended: make(chan boottime.Instant, 16)}
}

func (h *handover) handle(ctx context.Context, t worker.Term) error {
	h.began <- beginning{boottime.Now(), t.Epoch}
	<-ctx.Done()
	h.ended <- boottime.Now()
	return context.Cause(ctx)
}

// next does what hands the role over, waits for the next worker, in a later
// epoch than after, and notes how long there was none.
func (h *handover) next(b *testing.B, after uint64, do ...func()) beginning {
	b.Helper()
	for _, f := range do {
		go f()
	}
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		select {
		case now := <-h.began:
			if len(do) > 0 {
				h.idle = append(h.idle, now.at.Sub(<-h.ended))
			}
			if now.epoch > after {
				return now
			}
		case <-timeout.C:
			b.Fatal("nobody has taken the role")
		}
	}
}

// clientGo starts client-go's elector. The channel is closed when it has seen
// who leads.
func (s *site) clientGo(id string, h *handover) (*running, <-chan struct{}) {
	s.t.Helper()
	nc := s.server.Connect(s.t)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	lock, err := natskv.New(js, natskv.Options{Namespace: scheduler.Namespace, Name: scheduler.Lease})
	if err != nil {
		s.t.Fatal(err)
	}
	looks := make(chan struct{})
	seen := sync.OnceFunc(func() { close(looks) })
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          election.ResourceLock(lock, id),
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { _ = h.handle(ctx, worker.Term{Epoch: 1}) },
			OnStoppedLeading: func() {},
			OnNewLeader:      func(string) { seen() },
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.start(nc, func(ctx context.Context) error {
		elector.Run(ctx)
		return nil
	}), looks
}

// report adds the median and the worst to what a benchmark prints.
func (h *handover) report(b *testing.B) {
	b.Helper()
	if len(h.idle) == 0 {
		return
	}
	slices.Sort(h.idle)
	millis := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(millis(h.idle[len(h.idle)/2]), "idle-ms-p50/op")
	b.ReportMetric(millis(h.idle[len(h.idle)-1]), "idle-ms-max/op")
}
