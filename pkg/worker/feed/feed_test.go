package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var scheduler = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler.v1"}

// site is a log, and what handled its events.
type site struct {
	t   *testing.T
	nc  *nats.Conn
	log *events.Log
	of  events.Election
	seq uint64

	mu      sync.Mutex
	handled []string
	warned  bytes.Buffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, nc: natsenv.Start(t).Connect(t), of: scheduler}
	s.open()
	return s
}

func (s *site) open() {
	s.t.Helper()
	var err error
	if s.log, err = events.Open(s.t.Context(), s.nc, events.Options{}); err != nil {
		s.t.Fatal(err)
	}
}

// term appends the end of the term before, and the two events that begin one.
func (s *site) term(epoch uint64) {
	s.t.Helper()
	e := events.Event{
		Election: s.of, UID: "u", Time: time.Now(), Reporter: "a", Perspective: events.ByLeader,
	}
	var step []events.Event
	if epoch > 1 {
		e.Transition, e.Epoch, e.PreviousLeader, e.Reason = events.StoppedLeading, epoch-1, "a", events.Released
		step = append(step, e)
	}
	e.Transition, e.Epoch, e.Leader, e.Reason = events.BecameLeader, epoch, "a", events.Acquired
	step = append(step, e)
	e.Transition = events.NewLeader
	var err error
	if s.seq, err = s.log.Append(s.t.Context(), s.of, s.seq, append(step, e)...); err != nil {
		s.t.Fatal(err)
	}
}

// record notes what a worker handles.
func (s *site) record(_ context.Context, t worker.Term, e events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled = append(s.handled, fmt.Sprintf("%s: %s %d", t.Identity, e.Transition, e.Epoch))
	return nil
}

func (s *site) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.handled)
}

// await waits until exactly that has been handled.
func (s *site) await(want ...string) {
	s.t.Helper()
	testenv.Eventually(s.t, 20*time.Second, func() error {
		if got := s.seen(); !slices.Equal(got, want) {
			return fmt.Errorf("handled %q, want %q", got, want)
		}
		return nil
	})
}

// job is a worker at work.
type job struct {
	grant *worker.Grant
	done  chan struct{}
	err   error
}

func (j *job) stop() error {
	j.grant.Drain(errors.New("stop"))
	<-j.done
	return j.err
}

// work runs the handler under a grant of its own.
func (s *site) work(id string, epoch uint64, f Func) *job {
	s.t.Helper()
	log := slog.New(slog.NewTextHandler(&s.warned, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h, err := Handler(s.nc, Options{Logger: log}, f)
	if err != nil {
		s.t.Fatal(err)
	}
	term := worker.Term{Election: s.of, Role: "announcer", Epoch: epoch, Leader: "a", Identity: id}
	j := &job{grant: worker.NewGrant(context.Background(), term, worker.Now().Add(time.Minute), 0), done: make(chan struct{})}
	go func() {
		defer close(j.done)
		j.err = j.grant.Run(h, nil)
	}()
	s.t.Cleanup(func() { _ = j.stop() })
	return j
}

func TestTheNextWorkerGoesOnWhereTheLastOneWas(t *testing.T) {
	s := newSite(t)
	s.term(1)
	s.term(2)
	// The last state first, then each event.
	first := s.work("w1", 2, s.record)
	want := []string{"w1: new-leader 2"}
	s.await(want...)
	s.term(3)
	want = append(want, "w1: stopped-leading 2", "w1: became-leader 3", "w1: new-leader 3")
	s.await(want...)
	if err := first.stop(); err == nil || err.Error() == "" {
		t.Errorf("stopped: %v", err)
	}
	// Nobody is there for two terms.
	s.term(4)
	s.term(5)
	s.work("w2", 5, s.record)
	want = append(want, "w2: stopped-leading 3", "w2: became-leader 4", "w2: new-leader 4",
		"w2: stopped-leading 4", "w2: became-leader 5", "w2: new-leader 5")
	s.await(want...)
	testenv.Always(t, 300*time.Millisecond, func() error {
		if got := s.seen(); !slices.Equal(got, want) {
			return fmt.Errorf("handled %q", got)
		}
		return nil
	})
}

func TestAnEventThatFailsIsHandledAgainBeforeTheNext(t *testing.T) {
	s := newSite(t)
	s.term(1)
	failed := false
	f := func(ctx context.Context, term worker.Term, e events.Event) error {
		if e.Transition == events.BecameLeader && !failed {
			failed = true
			_ = s.record(ctx, term, e)
			return errors.New("not today")
		}
		return s.record(ctx, term, e)
	}
	h := func(ctx context.Context, term worker.Term, e events.Event) error { return f(ctx, term, e) }
	one := s.work("w1", 1, h)
	s.await("w1: new-leader 1")
	s.term(2)
	<-one.done
	if one.err == nil || one.err.Error() != "not today" {
		t.Errorf("handler = %v", one.err)
	}
	s.work("w1", 2, h)
	s.await("w1: new-leader 1", "w1: stopped-leading 1", "w1: became-leader 2", "w1: became-leader 2", "w1: new-leader 2")
}

func TestAWorkerThatWokeUpLateDoesNotSetThePositionBack(t *testing.T) {
	s := newSite(t)
	s.term(1)
	busy, wake := make(chan struct{}), make(chan struct{})
	late := s.work("late", 1, func(ctx context.Context, term worker.Term, e events.Event) error {
		close(busy)
		<-wake
		return s.record(ctx, term, e)
	})
	<-busy
	s.term(2)
	second := s.work("w2", 2, s.record)
	// It begins where the late one had to.
	s.await("w2: new-leader 1", "w2: stopped-leading 1", "w2: became-leader 2", "w2: new-leader 2")
	close(wake)
	<-late.done
	// The second one has written since.
	if api := new(jetstream.APIError); !errors.As(late.err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Errorf("the late worker: %v", late.err)
	}
	_ = second.stop()
	s.work("w3", 3, s.record)
	s.term(3)
	testenv.Eventually(t, 20*time.Second, func() error {
		if n := len(s.seen()); n < 8 {
			return fmt.Errorf("%d handled", n)
		}
		return nil
	})
	if got := s.seen()[5:]; slices.Contains(got, "w3: new-leader 2") {
		t.Errorf("handled again: %q", got)
	}
	// And one of an older term cannot begin at all.
	s.term(4)
	old := s.work("old", 1, s.record)
	<-old.done
	if stale := new(worker.StaleEpochError); !errors.As(old.err, &stale) || stale.Epoch != 1 {
		t.Errorf("the worker of an older term: %v", old.err)
	}
}

func TestATermThatIsOverLeavesThePosition(t *testing.T) {
	s := newSite(t)
	s.term(1)
	var j *job
	ready := make(chan struct{})
	j = s.work("w1", 1, func(ctx context.Context, term worker.Term, e events.Event) error {
		<-ready
		j.grant.End(errors.New("killed"))
		return s.record(ctx, term, e)
	})
	close(ready)
	<-j.done
	if !errors.Is(j.err, worker.ErrTermOver) {
		t.Errorf("handler = %v", j.err)
	}
	// The next one cannot know how far it came.
	s.work("w2", 1, s.record)
	s.await("w1: new-leader 1", "w2: new-leader 1")
}

func TestALogMadeAnew(t *testing.T) {
	s := newSite(t)
	for epoch := range uint64(4) {
		s.term(epoch + 1)
	}
	j := s.work("w1", 4, s.record)
	s.await("w1: new-leader 4")
	_ = j.stop()
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"LEADERBRIDGE", "KV_leaderbridge_leaders"} {
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	// By hand: the bridge would go on above the old sequences.
	s.seq = 0
	s.open()
	s.term(5)
	s.work("w2", 5, s.record)
	s.await("w1: new-leader 4", "w2: new-leader 5")
	s.term(6)
	s.await("w1: new-leader 4", "w2: new-leader 5", "w2: stopped-leading 5", "w2: became-leader 6", "w2: new-leader 6")
}

// Workers die at any moment, before and after their function has run, while the
// log grows: every event is handled, in order, and again only where a worker
// died between the function and the position.
func TestDyingWorkersLeaveNothingOut(t *testing.T) {
	s := newSite(t)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	again := 0
	for n := range 15 {
		s.of.Lease, s.seq, s.handled = fmt.Sprintf("lease-%d", n), 0, nil
		s.term(1)
		epoch, repeats := uint64(1), 0
		for range 8 {
			for range r.IntN(3) {
				epoch++
				s.term(epoch)
			}
			calls, before, after := r.IntN(4), r.IntN(2) == 0, r.IntN(2) == 0
			ready := make(chan struct{})
			var j *job
			j = s.work("w", epoch, func(ctx context.Context, term worker.Term, e events.Event) error {
				<-ready
				calls--
				if calls < 0 && before {
					j.grant.End(errors.New("killed"))
					return errors.New("killed")
				}
				err := s.record(ctx, term, e)
				if calls < 0 && after {
					repeats++
					j.grant.End(errors.New("killed"))
				}
				return err
			})
			close(ready)
			select {
			case <-j.done:
			case <-time.After(time.Duration(r.IntN(60)) * time.Millisecond):
				_ = j.stop()
			}
		}
		// One that lives handles the rest.
		epoch++
		s.term(epoch)
		last := s.work("w", epoch, s.record)
		want := []string{"w: new-leader 1"}
		for e := uint64(2); e <= epoch; e++ {
			want = append(want, fmt.Sprintf("w: stopped-leading %d", e-1), fmt.Sprintf("w: became-leader %d", e), fmt.Sprintf("w: new-leader %d", e))
		}
		testenv.Eventually(t, 20*time.Second, func() error {
			got := s.seen()
			if len(got) == 0 {
				return errors.New("nothing handled")
			}
			once := slices.Compact(slices.Clone(got))
			if from := slices.Index(want, once[0]); from < 0 || !slices.Equal(once, want[from:]) {
				return fmt.Errorf("handled %q, want the end of %q, each at least once", got, want)
			}
			if n := len(got) - len(once); n > repeats {
				return fmt.Errorf("%d handled again, with %d reasons: %q", n, repeats, got)
			}
			return nil
		})
		_ = last.stop()
		again += repeats
	}
	if again == 0 {
		t.Error("no worker died behind its function: the test has tested nothing")
	}
}

func TestPositions(t *testing.T) {
	id := func(n uint64) events.Event {
		return events.Event{Election: scheduler, Transition: events.NewLeader, UID: "u", Epoch: n}
	}
	p := position{Epoch: 3, Seq: 10, ID: id(3).ID()}
	for _, c := range []struct {
		name string
		seq  uint64
		e    events.Event
		want step
	}{
		{"itself", 10, id(3), skip},
		{"the next", 11, id(4), handle},
		{"the same, stored twice", 12, id(3), skip},
		{"another at its place", 10, id(9), again},
	} {
		if got := p.next(events.Entry{Seq: c.seq, Event: c.e}); got != c.want {
			t.Errorf("%s: step %d, want %d", c.name, got, c.want)
		}
	}
	if got := p.next(events.Entry{Seq: 10, Err: errors.New("foreign")}); got != skip {
		t.Errorf("what is no event: step %d", got)
	}
	begin := position{Epoch: 3, Seq: 10, ID: id(3).ID(), Pending: true}
	if got := begin.next(events.Entry{Seq: 10, Event: id(3)}); got != handle {
		t.Errorf("the event that a role begins with: step %d", got)
	}
	for last, want := range map[uint64]bool{9: false, 10: true, 11: true} {
		if p.within(last) != want {
			t.Errorf("within a log that ends with %d: %v", last, !want)
		}
	}
	if (position{}).within(5) {
		t.Error("no position is in every log")
	}
	for _, bad := range []string{"", "{}", "null", "[]", `{"seq":1}`, `{"seq":-1,"id":"x"}`} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a position", bad)
		}
	}
	if got, err := parse([]byte(`{"epoch":3,"seq":10,"id":"u.3.new-leader"}`)); err != nil || got != p {
		t.Errorf("parse = %+v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"epoch":3,"seq":10,"id":"u.3.new-leader"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parse(b); err == nil && (p.Seq == 0 || p.ID == "") {
			t.Errorf("%q is the position %+v", b, p)
		}
	})
}
