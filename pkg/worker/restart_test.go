package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestRestartPausesGrowAndThenItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(time.Hour), time.Second)
		start := Now()
		var runs []time.Duration
		broken := errors.New("broken")
		h := Restart{First: time.Second, Longest: 3 * time.Second, Failures: 5, CoolDown: time.Minute}.Handler(
			func(context.Context, Term) error {
				runs = append(runs, Now().Sub(start))
				if len(runs) == 2 {
					panic(broken)
				}
				return broken
			})
		err := g.Run(h, nil)
		var back *GiveBackError
		if !errors.As(err, &back) || back.CoolDown != time.Minute || back.Failures != 5 || !errors.Is(err, broken) {
			t.Fatalf("run = %v", err)
		}
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second}
		for i, at := range want {
			if len(runs) != len(want) || runs[i] != at {
				t.Fatalf("ran at %v, want %v", runs, want)
			}
		}
	})
}

func TestRestartForgetsFailuresAfterALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(time.Hour), time.Second)
		runs := 0
		h := Restart{First: time.Second, Longest: 30 * time.Second, Failures: 2}.Handler(
			func(context.Context, Term) error {
				if runs++; runs == 10 {
					return nil
				}
				time.Sleep(31 * time.Second)
				return errors.New("broken")
			})
		if err := g.Run(h, nil); err != nil || runs != 10 {
			t.Errorf("run = %v after %d runs", err, runs)
		}
	})
}

func TestRestartStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(10*time.Second), 2*time.Second)
		start, runs := Now(), 0
		broken := errors.New("broken")
		h := Restart{First: time.Hour, Longest: time.Hour}.Handler(func(context.Context, Term) error { runs++; return broken })
		if err := g.Run(h, nil); !errors.Is(err, broken) || runs != 1 {
			t.Errorf("run = %v after %d runs", err, runs)
		}
		if took := Now().Sub(start); took != 8*time.Second {
			t.Errorf("returned after %v, want when the context ends", took)
		}
	})
}

func TestRestartPassesOnAHandlersOwnGiveBack(t *testing.T) {
	g := NewGrant(t.Context(), facts(), in(time.Minute), 0)
	want := &GiveBackError{Failures: 1, CoolDown: time.Hour, Err: errors.New("no such command")}
	err := g.Run(Restart{}.Handler(func(context.Context, Term) error { return want }), nil)
	if !errors.Is(err, want) {
		t.Errorf("run = %v", err)
	}
}

func TestRestartArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Restart{
			First:   time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "first")),
			Longest: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "longest")),
		}.withDefaults()
		last := time.Duration(0)
		for n := 1; n < 100; n++ {
			p := r.pause(n)
			if p < last || p > r.Longest || p <= 0 {
				t.Fatalf("pause %d is %v after %v (longest %v)", n, p, last, r.Longest)
			}
			last = p
		}
		if last != r.Longest {
			t.Fatalf("pauses end at %v, want %v", last, r.Longest)
		}
		before := rapid.IntRange(0, 10).Draw(t, "before")
		if got := r.count(before, r.Longest-1); got != before+1 {
			t.Fatalf("a short run: %d failures after %d", got, before)
		}
		if got := r.count(before, r.Longest); got != 1 {
			t.Fatalf("a long run: %d failures", got)
		}
	})
}
