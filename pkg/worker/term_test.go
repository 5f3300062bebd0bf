package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestZeroTermIsOver(t *testing.T) {
	var term Term
	if err := term.Check(); !errors.Is(err, ErrTermOver) {
		t.Errorf("check = %v, want ErrTermOver", err)
	}
	if d, changed := term.Watch(); d != 0 || changed == nil {
		t.Errorf("watch = %d, %v", d, changed)
	}
}

func TestCheckFollowsTheDeadlineExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(10*time.Second), 2*time.Second)
		defer g.End(nil)
		term := g.Term()
		time.Sleep(10*time.Second - 1)
		if err := term.Check(); err != nil {
			t.Errorf("a nanosecond before the deadline: %v", err)
		}
		time.Sleep(time.Nanosecond)
		err := term.Check()
		var over *TermOverError
		if !errors.Is(err, ErrTermOver) || !errors.As(err, &over) || over.Epoch != 7 || over.Role != "sync" || over.Why != nil {
			t.Errorf("at the deadline: %#v", err)
		}
		const want = `the term is over: role "sync" of prod/scheduler, epoch 7: the grant has lapsed`
		if err.Error() != want {
			t.Errorf("error reads %q, want %q", err, want)
		}
		if g.Extend(in(time.Hour)) || term.Check() == nil {
			t.Error("a term that was over has been revived")
		}
	})
}

func TestContextEndsBeforeTheDeadlineAndMovesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := Now()
		g := NewGrant(t.Context(), facts(), start.Add(10*time.Second), 2*time.Second)
		defer g.End(nil)
		for range 20 { // renewed at a third, the context lives on
			time.Sleep(3300 * time.Millisecond)
			if !g.Extend(in(10 * time.Second)) {
				t.Fatal("extending failed")
			}
			if g.Context().Err() != nil {
				t.Fatal("the context ended although the grant was renewed")
			}
		}
		last := Now()
		<-g.Context().Done()
		if got := Now().Sub(last); got != 8*time.Second {
			t.Errorf("the context ended %v after the last renewal, want 8s", got)
		}
		if !errors.Is(context.Cause(g.Context()), errLapsing) {
			t.Errorf("cause = %v", context.Cause(g.Context()))
		}
		if err := g.Term().Check(); err != nil {
			t.Errorf("the term must be valid until its deadline: %v", err)
		}
		// A renewal that comes late keeps the term valid for the tidying up.
		if !g.Extend(in(time.Minute)) || g.Context().Err() == nil {
			t.Error("a late renewal must prolong the term and not the context")
		}
	})
}

func TestLateOrShorterAnswersNeverShortenATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(10*time.Second), time.Second)
		defer g.End(nil)
		before := g.Term().Deadline()
		if !g.Extend(in(5*time.Second)) || g.Term().Deadline() != before {
			t.Error("an earlier deadline must be ignored")
		}
	})
}

func TestDrainEndsTheContextAndEndTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(10*time.Second), time.Second)
		why := errors.New("the leader steps down")
		g.Drain(why)
		if !errors.Is(context.Cause(g.Context()), why) || g.Term().Check() != nil {
			t.Errorf("after Drain: cause %v, check %v", context.Cause(g.Context()), g.Term().Check())
		}
		g.End(why)
		if err := g.Term().Check(); !errors.Is(err, ErrTermOver) || !errors.Is(err, why) {
			t.Errorf("after End: %v", err)
		}
		if g.Extend(in(time.Hour)) {
			t.Error("an ended term was prolonged")
		}
	})
}

func TestParentEndsTheContextNotTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		g := NewGrant(parent, facts(), in(10*time.Second), time.Second)
		defer g.End(nil)
		cancel()
		if g.Context().Err() == nil || g.Term().Check() != nil {
			t.Error("a stopping program still holds its grant while it tidies up")
		}
	})
}

func TestWatchTellsOfEveryMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(10*time.Second), time.Second)
		term := g.Term()
		var seen []Instant
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				d, changed := term.Watch()
				seen = append(seen, d)
				if errors.Is(term.Check(), ErrTermOver) {
					return
				}
				<-changed
			}
		}()
		want := []Instant{term.Deadline()}
		for i := range 3 {
			synctest.Wait()
			d := in(time.Duration(20+i) * time.Second)
			g.Extend(d)
			want = append(want, d)
		}
		synctest.Wait()
		g.End(nil)
		<-done
		if want = append(want, term.Deadline()); !slices.Equal(seen, want) {
			t.Errorf("saw %v, want %v", seen, want)
		}
	})
}

func TestEnviron(t *testing.T) {
	want := []string{
		"LEADERBRIDGE_CLUSTER=default", "LEADERBRIDGE_NAMESPACE=prod", "LEADERBRIDGE_LEASE=scheduler",
		"LEADERBRIDGE_ELECTION=prod/scheduler", "LEADERBRIDGE_ROLE=sync", "LEADERBRIDGE_EPOCH=7",
		"LEADERBRIDGE_LEADER=pod-b", "LEADERBRIDGE_IDENTITY=worker-1",
	}
	if got := facts().Environ(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whatever the order of renewals and checks, the term is valid exactly until
// the greatest deadline that was set in time.
func TestTermAgainstAPlainModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			deadline := in(time.Duration(rapid.IntRange(-5, 50).Draw(r, "first")))
			g := NewGrant(t.Context(), facts(), deadline, 5)
			defer g.End(nil)
			over := false
			for range rapid.IntRange(1, 20).Draw(r, "steps") {
				time.Sleep(time.Duration(rapid.IntRange(0, 20).Draw(r, "sleep")))
				over = over || Now() >= deadline
				if rapid.Bool().Draw(r, "extend") {
					to := in(time.Duration(rapid.IntRange(-10, 50).Draw(r, "to")))
					if got := g.Extend(to); got == over {
						r.Fatalf("extend = %v, over = %v", got, over)
					}
					if !over {
						deadline = max(deadline, to)
					}
				}
				if got := g.Term().Check() != nil; got != over {
					r.Fatalf("over = %v, want %v", got, over)
				}
				synctest.Wait()
				if Now() >= deadline.Add(-5) && g.Context().Err() == nil {
					r.Fatalf("the context lives on %v before the deadline", deadline.Sub(Now()))
				}
			}
		})
	})
}

func TestCheckFromManyGoroutines(t *testing.T) {
	g := NewGrant(t.Context(), facts(), in(50*time.Millisecond), 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			term := g.Term()
			for term.Check() == nil {
				g.Extend(Now().Add(time.Millisecond))
			}
			if term.Check() == nil {
				t.Error("a term that was over is valid again")
			}
		})
	}
	time.AfterFunc(100*time.Millisecond, func() { g.End(nil) })
	wg.Wait()
}

func BenchmarkCheck(b *testing.B) {
	g := NewGrant(b.Context(), facts(), in(time.Hour), 0)
	defer g.End(nil)
	term := g.Term()
	b.ReportAllocs()
	for b.Loop() {
		if term.Check() != nil {
			b.Fatal("over")
		}
	}
}
