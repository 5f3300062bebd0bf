package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/tcpproxy"
)

// A clean hand-over: the old worker has ended before the old leader releases,
// and the new one starts at once.
func TestCleanHandOver(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	a := s.stand("a")
	s.leads(a)
	b := s.stand("b")
	s.work(s.server.Connect(t), "w1", "sync", r.handle)
	s.work(s.server.Connect(t), "w2", "sync", r.handle)
	first := s.await(r, "sync", 0)

	begun := time.Now()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	s.leads(b)
	second := s.await(r, "sync", first.epoch)
	old := r.all()[0]
	t.Logf("stop to new worker: %s; the role was idle for %s", time.Since(begun), second.began.Sub(old.ended))
	if idle := second.began.Sub(old.ended); old.ended == 0 || idle < 0 || idle > time.Second {
		t.Errorf("the role was idle for %s", idle)
	}
}

// Fifty workers wait for one role: one works, and when it goes another does,
// at once, again and again.
func TestFiftyWorkersForOneRole(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	s.leads(s.stand("a"))
	workers := map[string]*running{}
	for i := range 50 {
		id := fmt.Sprintf("w%d", i)
		workers[id] = s.work(s.server.Connect(t), id, "sync", r.handle)
	}
	var idle []time.Duration
	for range 5 {
		now := s.await(r, "sync", 0)
		if err := workers[now.worker].end(); err != nil {
			t.Fatal(err)
		}
		next := s.await(r, "sync", 0)
		if next.worker == now.worker {
			t.Fatalf("%s works after its end", now.worker)
		}
		for _, old := range r.all() {
			if old.began == now.began {
				idle = append(idle, next.began.Sub(old.ended))
			}
		}
	}
	t.Logf("idle between two workers: %v", idle)
	slices.Sort(idle)
	if median := idle[len(idle)/2]; median > time.Second {
		t.Errorf("a role that is given back is idle for %s", median)
	}
}

// Two hundred roles on one election, through a hand-over of the leader.
func TestTwoHundredRoles(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	// With the default durations: lock, log and workers share one server here.
	a := s.standWith(election.Options{Identity: "a"})
	s.leads(a)
	b := s.standWith(election.Options{Identity: "b"})
	const roles = 200
	conns := []*nats.Conn{s.server.Connect(t), s.server.Connect(t), s.server.Connect(t), s.server.Connect(t)}
	for i := range roles {
		s.work(conns[i%len(conns)], fmt.Sprintf("w%d", i), fmt.Sprintf("role-%d", i), r.handle)
	}
	all := func(after uint64) {
		t.Helper()
		begun := time.Now()
		testenv.Eventually(t, 40*time.Second, func() error {
			n := 0
			for i := range roles {
				if now := r.working(fmt.Sprintf("role-%d", i)); now != nil && now.epoch > after {
					n++
				}
			}
			if n < roles {
				return fmt.Errorf("%d of %d roles are worked in", n, roles)
			}
			return nil
		})
		t.Logf("all roles after epoch %d: %s", after, time.Since(begun))
	}
	all(0)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	s.leads(b)
	all(1)
}

// NATS goes away for longer than a grant: the work stops in time, and begins
// anew when NATS is back.
func TestNATSIsAway(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	s.leads(s.stand("a"))
	s.work(s.server.Connect(t), "w1", "sync", r.handle)
	s.work(s.server.Connect(t), "w2", "sync", r.handle)
	s.await(r, "sync", 0)
	s.server.Stop()
	away := boottime.Now()
	testenv.Eventually(t, 10*time.Second, func() error {
		if r.working("sync") != nil {
			return errors.New("still at work")
		}
		return nil
	})
	// The grant is at most as long as the term, two seconds.
	if took := r.all()[0].ended.Sub(away); took > 2*time.Second {
		t.Errorf("the work went on for %s without NATS", took)
	}
	s.server.Restart(t)
	s.await(r, "sync", 0)
}

// Field case 4: the work takes its time to stop. The lock is not released
// before it has, and the log says so after it.
func TestLeaderWaitsForItsWorkers(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	a := s.stand("a")
	s.leads(a)
	b := s.stand("b")
	const tidying = 1200 * time.Millisecond
	slow := func(ctx context.Context, term worker.Term) error {
		shift := r.begin(term)
		defer r.end(shift)
		<-ctx.Done()
		stopped := time.Now()
		for time.Since(stopped) < tidying {
			if err := term.Check(); err != nil {
				t.Errorf("the grant did not last while the work was tidying up: %v", err)
				return err
			}
			time.Sleep(10 * time.Millisecond) // the work takes time
		}
		if term.Leader == "a" && b.Elector().Term() != nil {
			t.Error("the successor leads while the work still runs")
		}
		return nil
	}
	s.work(s.server.Connect(t), "w1", "sync", slow)
	s.work(s.server.Connect(t), "w2", "sync", slow)
	first := s.await(r, "sync", 0)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	s.await(r, "sync", first.epoch)
}

// The lock is overwritten under a leader. Its successor does not know who was
// given what, and gives nothing for a lease duration; nor does it release
// before that.
func TestOverwrittenLock(t *testing.T) {
	for _, release := range []bool{false, true} {
		t.Run(fmt.Sprintf("release=%v", release), func(t *testing.T) {
			s := newSite(t)
			r := &rota{t: t}
			a := s.stand("a")
			s.leads(a)
			stubborn := func(ctx context.Context, term worker.Term) error {
				shift := r.begin(term)
				defer r.end(shift)
				<-ctx.Done()
				// It uses its grant to the end, as it may.
				for end := term.Deadline(); boottime.Until(end) > 100*time.Millisecond; {
					time.Sleep(time.Millisecond) // the work takes time
				}
				return context.Cause(ctx)
			}
			s.work(s.server.Connect(t), "w1", "sync", stubborn)
			s.work(s.server.Connect(t), "w2", "sync", stubborn)
			first := s.await(r, "sync", 0)
			b, c := s.stand("b"), s.stand("c")
			testenv.Eventually(t, 10*time.Second, func() error {
				if b.Leader() != "a" || c.Leader() != "a" {
					return errors.New("the standbys do not know the leader yet")
				}
				return nil
			})
			s.overwrite()
			testenv.Eventually(t, 10*time.Second, func() error {
				if a.Elector().Term() != nil {
					return errors.New("it has not noticed")
				}
				return nil
			})
			a.stop() // and does not stand again
			if release {
				var next *candidate
				testenv.Eventually(t, 20*time.Second, func() error {
					for _, x := range []*candidate{b, c} {
						if x.Elector().Term() != nil {
							next = x
							return nil
						}
					}
					return errors.New("no successor yet")
				})
				if err := next.end(); err != nil {
					t.Fatal(err)
				}
			}
			s.await(r, "sync", first.epoch)
		})
	}
}

// Requests come from anybody.
func TestRequestsThatAreNone(t *testing.T) {
	s := newSite(t)
	s.leads(s.stand("a"))
	nc := s.server.Connect(t)
	subject := scheduler.RequestSubject(events.DefaultPrefix, events.GrantVerb)
	ask := func(data string) *nats.Msg {
		t.Helper()
		var m *nats.Msg
		testenv.Eventually(t, 10*time.Second, func() (err error) {
			m, err = nc.Request(subject, []byte(data), 5*time.Second)
			return err
		})
		return m
	}
	for _, data := range []string{
		"", "[]", "{", `{"role":"a"}`, `{"role":"Not.A.Label","worker":"w","instance":"i","seq":1}`,
		`{"role":"a","worker":"w","instance":"i"}`, `{"role":"a","worker":"w","instance":"i","seq":-1}`,
		`{"role":"a","worker":"` + strings.Repeat("w", 600) + `","instance":"i","seq":1}`,
		`"` + strings.Repeat("x", 100_000) + `"`,
	} {
		m := ask(data)
		var no events.Refusal
		if err := json.Unmarshal(m.Data, &no); err != nil || no.Reason != events.RefusedInvalid || m.Header.Get(micro.ErrorCodeHeader) != "400" {
			t.Errorf("%.50q: %s %v", data, m.Data, m.Header)
		}
	}
	testenv.Eventually(t, 10*time.Second, func() error {
		m := ask(fmt.Sprintf(`{"role":"a","worker":"w","instance":"i","seq":%d,"unknown":{}}`, time.Now().UnixNano()))
		var yes events.GrantAnswer
		if err := json.Unmarshal(m.Data, &yes); err != nil || yes.Epoch != 1 || yes.Leader != "a" || yes.ValidMillis <= 0 || yes.ValidMillis > 2000 {
			return fmt.Errorf("%s %v", m.Data, m.Header)
		}
		return nil
	})
	if m := ask(`{"role":"a","worker":"w","instance":"j","seq":1}`); !strings.Contains(string(m.Data), `"holder":"w"`) {
		t.Errorf("a role that is held: %s", m.Data)
	}
}

// A worker that follows a named holder works while the log says that it leads.
func TestFollowHolder(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	a := s.stand("a")
	s.leads(a)
	b := s.stand("b")
	w, err := worker.New(s.server.Connect(t), worker.Options{Election: scheduler, Follow: "b", Handler: r.handle, Logger: s.log})
	if err != nil {
		t.Fatal(err)
	}
	s.start(nil, w.Run)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	now := s.await(r, "follower", 0)
	if now.epoch != 2 {
		t.Errorf("works in epoch %d, want that of b", now.epoch)
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 10*time.Second, func() error {
		if r.working("follower") != nil {
			return errors.New("still at work")
		}
		return nil
	})
}

// A leader that is stopped while the log cannot be reached gives the lock back
// all the same, and ends cleanly, also where leases are short.
func TestCleanStopWithoutTheLog(t *testing.T) {
	s := newSite(t)
	address, err := url.Parse(s.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := tcpproxy.Start(t, address.Host)
	nc, err := nats.Connect("nats://" + proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	a := s.standOn(nc, election.Options{
		Identity: "a", LeaseDuration: 2 * time.Second, RenewDeadline: 1400 * time.Millisecond, RetryPeriod: 300 * time.Millisecond,
	})
	s.leads(a)
	r := &rota{t: t}
	s.work(s.server.Connect(t), "w1", "sync", r.handle)
	s.await(r, "sync", 0)
	proxy.Freeze() // the bridge's connection to the log and to the workers; the lock has its own
	defer proxy.Thaw()
	if err := a.end(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	lock, err := natskv.New(s.server.JetStream(t), natskv.Options{Namespace: scheduler.Namespace, Name: scheduler.Lease})
	if err != nil {
		t.Fatal(err)
	}
	if obs, err := lock.Read(t.Context()); err != nil || obs.Record.Holder != "" {
		t.Errorf("the lock names %q (%v), want nobody", obs.Record.Holder, err)
	}
}
