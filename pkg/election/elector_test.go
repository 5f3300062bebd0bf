package election_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/internal/memlock"
)

// candidate is one Elector in a bubble, and what it told.
type candidate struct {
	t       *testing.T
	e       *election.Elector
	lock    *memlock.Lock
	stop    context.CancelFunc
	done    chan error
	working atomic.Int32
	terms   atomic.Int32

	mu     sync.Mutex
	states []election.State
	ends   []end
}

type end struct {
	at    time.Time
	cause *election.EndError
}

// start runs a candidate with 15/10/2 unless tune says otherwise.
func start(t *testing.T, store *memlock.Store, id string, tune func(*election.Options)) *candidate {
	t.Helper()
	c := prepare(t, store, id, tune)
	c.run()
	return c
}

func prepare(t *testing.T, store *memlock.Store, id string, tune func(*election.Options)) *candidate {
	t.Helper()
	c := &candidate{t: t, lock: store.Open(id), done: make(chan error, 1)}
	o := election.Options{Identity: id, Lead: c.untilCancelled}
	if tune != nil {
		tune(&o)
	}
	work := o.Lead
	o.Lead = func(ctx context.Context, term *election.Term) error {
		if n := c.working.Add(1); n > 1 {
			t.Errorf("%s: %d copies of the work run", id, n)
		}
		defer c.working.Add(-1)
		c.terms.Add(1)
		return work(ctx, term)
	}
	o.Observe = func(s election.State) {
		if s.Own && s.Status == election.Held && c.e.Term() == nil {
			t.Errorf("%s: told of a term of its own that has not begun: %+v", id, s)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.states = append(c.states, s)
	}
	e, err := election.New(c.lock, o)
	if err != nil {
		t.Fatal(err)
	}
	c.e = e
	return c
}

func (c *candidate) run() {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.stop = cancel
	go func() { c.done <- c.e.Run(ctx) }()
}

func (c *candidate) untilCancelled(ctx context.Context, _ *election.Term) error {
	<-ctx.Done()
	c.ended(ctx)
	return nil
}

func (c *candidate) ended(ctx context.Context) {
	var cause *election.EndError
	if !errors.As(context.Cause(ctx), &cause) {
		c.t.Errorf("the term's context ended with %v, want an EndError", context.Cause(ctx))
		cause = &election.EndError{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, end{at: time.Now(), cause: cause})
}

func (c *candidate) leads() bool { t := c.e.Term(); return t != nil && t.Check() == nil }

func (c *candidate) lastEnd() end {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ends) == 0 {
		c.t.Fatal("no term has ended")
	}
	return c.ends[len(c.ends)-1]
}

func (c *candidate) sawStatus(s election.Status) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, st := range c.states {
		if st.Status == s {
			n++
		}
	}
	return n
}

// quit stops the candidate and waits for it.
func (c *candidate) quit() error {
	c.stop()
	return <-c.done
}

// pass lets bubble time go by and the goroutines settle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func bubble(t *testing.T, f func(t *testing.T, store *memlock.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memlock.NewStore()) })
}

func TestStandbyLeadsTheMomentTheLockIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		b := start(t, store, "b", nil)
		pass(time.Second)
		if !a.leads() || b.leads() {
			t.Fatalf("a leads: %v, b leads: %v", a.leads(), b.leads())
		}
		if err := a.e.StepDown(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		// No time may pass: neither a poll nor a timer is involved.
		synctest.Wait()
		if a.leads() || !b.leads() {
			t.Fatalf("after the hand-over a leads: %v, b leads: %v", a.leads(), b.leads())
		}
		if got := a.lastEnd().cause; got.Reason != election.SteppedDown || !got.Held {
			t.Errorf("a's context ended with %+v", got)
		}
		if err := errors.Join(b.quit(), a.quit()); err != nil {
			t.Error(err)
		}
		if h := store.State().Record.Holder; h != "" {
			t.Errorf("the lock is left to %q", h)
		}
	})
}

func TestCrashedLeaderIsReplacedWhenItsLeaseIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		b := start(t, store, "b", func(o *election.Options) { o.LeaseDuration = 12 * time.Second })
		pass(5 * time.Second) // a's last renewal was at 4 s
		if !a.leads() {
			t.Skip("b was first") // decided by scheduling; the other order is the same test
		}
		dead := func(memlock.Call) memlock.Fault { return memlock.Fault{Hang: true} }
		a.lock.Intercept(dead)
		a.lock.HoldWatches(true)
		pass(14*time.Second - time.Millisecond)
		if b.leads() {
			t.Error("b took a lock that its record still protected (S1: by the stored 15 s, not b's own 12 s)")
		}
		pass(time.Millisecond)
		if !b.leads() {
			t.Error("b does not lead at the end of a's lease")
		}
		if b.sawStatus(election.Lapsed) != 1 {
			t.Errorf("b told of %d lapses, want 1", b.sawStatus(election.Lapsed))
		}
		a.lock.Intercept(nil)
		a.lock.HoldWatches(false)
		_, _ = a.quit(), b.quit()
	})
}

// Field cases 1 and 16 (kubernetes/kubernetes#23731): the loser goes on until
// its deadline although it has seen the new holder.
func TestLeaderStopsWhenAnotherHolderIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(2500 * time.Millisecond)
		rec := store.State().Record
		rec.Holder, rec.Acquired = "b", time.Now()
		store.Overwrite(rec)
		synctest.Wait()
		if a.leads() || a.working.Load() != 0 {
			t.Error("a goes on beside b")
		}
		if got := a.lastEnd().cause; got.Reason != election.Superseded || got.Held {
			t.Errorf("a's context ended with %+v", got)
		}
		_ = a.quit()
		if h := store.State().Record.Holder; h != "b" {
			t.Errorf("a's stop wrote %q over b's record", h)
		}
	})
}

// Field case 3: with a hung API server the context ended only after the
// release was tried, later than the lease.
func TestHungStoreEndsTheTermAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", func(o *election.Options) {
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 6*time.Second, 4*time.Second, time.Second
		})
		pass(2*time.Second + 500*time.Millisecond)
		begun := time.Now()
		a.lock.Intercept(func(memlock.Call) memlock.Fault { return memlock.Fault{Hang: true} })
		pass(10 * time.Second)
		last := a.lastEnd()
		if after := last.at.Sub(begun); after != 3500*time.Millisecond {
			t.Errorf("the context ended %s after the hang began, want 3.5 s: the deadline after the renewal sent 0.5 s before", after)
		}
		if last.cause.Reason != election.RenewDeadline {
			t.Errorf("reason %q", last.cause.Reason)
		}
		a.lock.Intercept(nil)
		_ = a.quit()
	})
}

// Field case 4 (kubernetes/kubernetes#139504): the lock was handed over while
// guarded work was still running.
func TestLockIsHeldUntilTheWorkHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", func(o *election.Options) {
			o.Lead = func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				time.Sleep(3 * time.Second)
				return nil
			}
		})
		b := start(t, store, "b", func(o *election.Options) { o.RetryPeriod = time.Second })
		pass(time.Second)
		if !a.leads() {
			a, b = b, a
			t.Skip("b was first")
		}
		a.stop()
		for range 2 {
			pass(1400 * time.Millisecond)
			if h := store.State().Record.Holder; h != "a" || b.leads() {
				t.Fatalf("the lock says %q and b leads: %v while a's work runs", h, b.leads())
			}
		}
		pass(200 * time.Millisecond)
		if !b.leads() {
			t.Errorf("b does not lead after a's work has ended, at the very moment of a's renewal: %+v", store.State())
		}
		if err := <-a.done; err != nil {
			t.Error(err)
		}
		_ = b.quit()
	})
}

func TestWorkThatDoesNotEndKeepsTheLockAndIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		release := make(chan struct{})
		a := start(t, store, "a", func(o *election.Options) {
			o.DrainTimeout = 5 * time.Second
			o.Lead = func(context.Context, *election.Term) error { <-release; return nil }
		})
		pass(time.Second)
		a.stop()
		pass(5 * time.Second)
		if h := store.State().Record.Holder; h != "a" {
			t.Errorf("the lock says %q while the work runs", h)
		}
		close(release)
		if err := <-a.done; !errors.Is(err, election.ErrDrainTimeout) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// Field cases 5 and 6 (kubernetes/client-go#1187): a process that never led
// reported a stop, or began to lead while it was shutting down.
func TestStandbyThatStopsTellsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		b := start(t, store, "b", nil)
		pass(time.Second)
		if err := b.quit(); err != nil {
			t.Error(err)
		}
		if b.terms.Load() != 0 || b.sawStatus(election.Ended) != 0 {
			t.Errorf("the standby led %d times and told of %d ends", b.terms.Load(), b.sawStatus(election.Ended))
		}
		if !a.leads() {
			t.Error("a does not lead any more")
		}
		_ = a.quit()
	})
}

// Field case 10 (kubernetes/client-go#1155): one failed renewal ended the
// candidacy for ever. Case 94: the second term runs the work once.
func TestFailedTermIsFollowedByAnother(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		a.lock.Intercept(func(memlock.Call) memlock.Fault { return memlock.Fault{Err: errors.New("connection refused")} })
		pass(time.Minute)
		if a.leads() {
			t.Error("a leads without a store")
		}
		a.lock.Intercept(nil)
		pass(5 * time.Second)
		if !a.leads() || a.terms.Load() != 2 {
			t.Errorf("a leads: %v, terms: %d", a.leads(), a.terms.Load())
		}
		_ = a.quit()
	})
}

// Field case 20 (kubernetes/kubernetes#95319).
func TestOneHungRequestDoesNotCostTheTerm(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		var hung atomic.Bool
		a.lock.Intercept(func(c memlock.Call) memlock.Fault {
			if c.Op == memlock.Update && !hung.Swap(true) {
				return memlock.Fault{Delay: 8 * time.Second}
			}
			return memlock.Fault{}
		})
		pass(30 * time.Second)
		if !hung.Load() || a.terms.Load() != 1 || !a.leads() {
			t.Errorf("hung: %v, terms: %d, leads: %v", hung.Load(), a.terms.Load(), a.leads())
		}
		_ = a.quit()
	})
}

// Field case 26: throttled for less than the deadline, then for longer.
func TestThrottlingWithinTheDeadlineIsSurvived(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		refuse := func(memlock.Call) memlock.Fault { return memlock.Fault{Refuse: true} }
		a.lock.Intercept(refuse)
		pass(6 * time.Second)
		a.lock.Intercept(nil)
		pass(10 * time.Second)
		if a.terms.Load() != 1 || !a.leads() {
			t.Fatalf("six seconds of refusals: terms %d, leads %v", a.terms.Load(), a.leads())
		}
		a.lock.Intercept(refuse)
		pass(12 * time.Second)
		if a.leads() || a.sawStatus(election.Ended) != 1 {
			t.Errorf("twelve seconds of refusals: leads %v, ends %d", a.leads(), a.sawStatus(election.Ended))
		}
		a.lock.Intercept(nil)
		_ = a.quit()
	})
}

// Rule S5: the answer to the acquiring write is lost.
func TestLostAnswerIsNeitherSuccessNorLoss(t *testing.T) {
	for _, op := range []memlock.Op{memlock.Create, memlock.Update} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(t *testing.T, store *memlock.Store) {
				var lost atomic.Bool
				if op == memlock.Update { // there is a record to take over
					store.Overwrite(election.Record{Duration: time.Second, HasTransitions: true})
				}
				a := prepare(t, store, "a", nil)
				a.lock.Intercept(func(c memlock.Call) memlock.Fault {
					return memlock.Fault{LoseAnswer: c.Op == op && !lost.Swap(true)}
				})
				a.run()
				pass(30 * time.Second)
				if !lost.Load() || !a.leads() || a.terms.Load() != 1 {
					t.Errorf("lost: %v, leads: %v, terms: %d", lost.Load(), a.leads(), a.terms.Load())
				}
				_ = a.quit()
			})
		})
	}
}

func TestLeaderMakesItsDeletedRecordAgain(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		b := start(t, store, "b", nil)
		pass(time.Second)
		if !a.leads() {
			a, b = b, a
		}
		before := store.State()
		store.Delete()
		synctest.Wait()
		after := store.State()
		if !after.Exists || after.UID == before.UID || !after.Record.Acquired.Equal(before.Record.Acquired) {
			t.Errorf("the record is %+v after the deletion of %+v", after, before)
		}
		pass(20 * time.Second)
		if !a.leads() || a.terms.Load() != 1 || b.terms.Load() != 0 {
			t.Errorf("leads %v, terms %d and %d: want the same term to go on", a.leads(), a.terms.Load(), b.terms.Load())
		}
		_, _ = b.quit(), a.quit()
	})
}

// Rule S8: another process writes under our identity.
func TestIdentityCollisionEndsTheTerm(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "web-0", nil)
		pass(time.Second)
		rec := store.State().Record
		rec.Acquired = rec.Acquired.Add(time.Millisecond)
		store.Overwrite(rec)
		synctest.Wait()
		if a.leads() {
			t.Error("a leads on a record that its twin wrote")
		}
		_ = a.quit()
	})
}

// Field case 14: a restart under the same identity is a new candidate, which
// waits, and leads in a new term.
func TestRestartUnderTheSameIdentityWaitsAndBeginsANewTerm(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		rec := election.Record{Holder: "web-0", Duration: 15 * time.Second, Acquired: time.Now().Add(-time.Hour), Renewed: time.Now(), HasTransitions: true, Transitions: 4}
		store.Overwrite(rec)
		a := start(t, store, "web-0", nil)
		pass(14 * time.Second)
		if a.leads() {
			t.Error("a leads while the lease of its former life runs")
		}
		pass(2 * time.Second)
		got := store.State().Record
		if !a.leads() || got.Acquired.Equal(rec.Acquired) || got.Transitions != 5 {
			t.Errorf("leads: %v, record: %+v", a.leads(), got)
		}
		_ = a.quit()
	})
}

// Field case 41.
func TestPanicReleasesTheLockAndEndsRun(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", func(o *election.Options) {
			o.Lead = func(context.Context, *election.Term) error { panic("boom") }
		})
		err := <-a.done
		var p *election.PanicError
		if !errors.As(err, &p) || p.Value != "boom" {
			t.Errorf("Run returned %v", err)
		}
		if s := store.State(); !s.Exists || s.Record.Holder != "" {
			t.Errorf("the lock is left to %q", s.Record.Holder)
		}
	})
}

func TestWorkThatReturnsGivesOthersAChance(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", func(o *election.Options) {
			o.Lead = func(context.Context, *election.Term) error { return errors.New("no database") }
		})
		pass(30 * time.Second)
		if n := a.terms.Load(); n < 5 || n > 20 {
			t.Errorf("%d terms in 30 s: want one about every retry period", n)
		}
		_ = a.quit()
	})
}

func TestPreferredCandidateIsNext(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		others := map[string]*candidate{}
		for _, id := range []string{"b", "c", "d", "e"} {
			others[id] = start(t, store, id, nil)
		}
		pass(time.Second)
		if err := a.e.StepDown(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !others["d"].leads() {
			t.Error("d does not lead")
		}
		for _, c := range others {
			if err := c.quit(); err != nil {
				t.Error(err)
			}
		}
		_ = a.quit()
	})
}

func TestAbsentPreferredCandidateDelaysByARetryPeriodOnly(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		b := start(t, store, "b", nil)
		pass(time.Second)
		if err := a.e.StepDown(t.Context(), "nobody"); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		if !b.leads() {
			t.Error("b does not lead")
		}
		_, _ = b.quit(), a.quit()
	})
}

func TestStepDownOfAStandbyIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		b := start(t, store, "b", nil)
		pass(time.Second)
		if err := b.e.StepDown(t.Context(), ""); !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("got %v", err)
		}
		_, _ = b.quit(), a.quit()
	})
}

func TestUnhealthyLeaderHandsOverAndStandsAgainWhenHealthy(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		if err := a.e.Stand(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if a.leads() || a.lastEnd().cause.Reason != election.Unhealthy || store.State().Record.Holder != "" {
			t.Errorf("leads %v, reason %s, holder %q", a.leads(), a.lastEnd().cause.Reason, store.State().Record.Holder)
		}
		if err := a.e.Stand(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !a.leads() {
			t.Error("a does not stand again")
		}
		_ = a.quit()
	})
}

func TestHealthDecidesWhoStands(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		var sick atomic.Bool
		sick.Store(true)
		a := start(t, store, "a", func(o *election.Options) {
			o.Health = &election.Health{Check: func(ctx context.Context) error {
				if sick.Load() {
					<-ctx.Done() // a check that hangs has failed
				}
				return ctx.Err()
			}}
		})
		pass(time.Minute)
		if a.terms.Load() != 0 {
			t.Error("a led before its first healthy check")
		}
		sick.Store(false)
		pass(4 * time.Second)
		if !a.leads() {
			t.Error("a is healthy and does not lead")
		}
		sick.Store(true)
		pass(3 * time.Second)
		if !a.leads() {
			t.Error("a gave up before the third failure")
		}
		pass(4 * time.Second)
		if a.leads() || a.lastEnd().cause.Reason != election.Unhealthy {
			t.Errorf("leads: %v, reason %q", a.leads(), a.lastEnd().cause.Reason)
		}
		if h := store.State().Record.Holder; h != "" {
			t.Errorf("the lock is left to %q", h)
		}
		_ = a.quit()
	})
}

func TestEpochIsWrittenWithTheNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		a.e.Term().SetEpoch(7)
		pass(2 * time.Second)
		rec := store.State().Record
		if rec.Epoch != 7 || !rec.EpochAcquired.Equal(rec.Acquired) {
			t.Errorf("record %+v", rec)
		}
		_ = a.quit()
		if rec := store.State().Record; rec.Epoch != 7 {
			t.Errorf("the epoch is lost with the release: %+v", rec)
		}
	})
}

// A standby watches: per lease duration it sends at most one read, and one in a
// lease duration and a quarter at least.
func TestStandbySendsOneRequestPerLeaseDuration(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(1500 * time.Millisecond) // so that no read meets a renewal
		b := start(t, store, "b", nil)
		pass(time.Second)
		var requests atomic.Int32
		b.lock.Intercept(func(memlock.Call) memlock.Fault { requests.Add(1); return memlock.Fault{} })
		pass(150 * time.Second)
		if n := requests.Load(); n < 8 || n > 10 {
			t.Errorf("%d requests in ten lease durations, want 8 to 10", n)
		}
		_, _ = b.quit(), a.quit()
	})
}

func TestDeafWatchIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, store *memlock.Store) {
		a := start(t, store, "a", nil)
		pass(time.Second)
		b := start(t, store, "b", nil)
		pass(time.Second)
		b.lock.HoldWatches(true)
		_ = a.quit() // releases; b does not hear it
		pass(15 * time.Second)
		if !b.leads() {
			t.Error("b waits for a watch that says nothing")
		}
		b.lock.HoldWatches(false)
		_ = b.quit()
	})
}

func TestOptionsAreCheckedInOneReadableLine(t *testing.T) {
	tests := map[string]struct {
		o    election.Options
		want string
	}{
		"half a second":      {election.Options{LeaseDuration: 500 * time.Millisecond, RenewDeadline: 300 * time.Millisecond, RetryPeriod: 100 * time.Millisecond}, "lease duration 500ms is below one second"},
		"a second and half":  {election.Options{LeaseDuration: 1500 * time.Millisecond, RenewDeadline: time.Second, RetryPeriod: 500 * time.Millisecond}, "not a whole number of seconds"},
		"below the deadline": {election.Options{LeaseDuration: 8 * time.Second}, "lease duration 8s > renew deadline 10s > 1.2 x retry period 2s"},
		"retry too long":     {election.Options{RetryPeriod: 9 * time.Second}, "renew deadline 10s > 1.2 x retry period 9s"},
		"negative":           {election.Options{LeaseDuration: -15 * time.Second}, "below one second"},
		"negative retry":     {election.Options{RetryPeriod: -time.Second}, "must hold"},
		"slow requests":      {election.Options{RequestTimeout: 11 * time.Second}, "request timeout 11s"},
		"long drain":         {election.Options{DrainTimeout: time.Minute}, "drain timeout 1m0s"},
		"no identity":        {election.Options{Identity: " "}, "blank"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.o.Identity == "" {
				tt.o.Identity = "a"
			}
			_, err := election.New(memlock.NewStore().Open("x"), tt.o)
			if !errors.Is(err, election.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tt.want)
			}
		})
	}
}
