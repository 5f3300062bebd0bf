package boottime

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNowAdvancesWithTheMonotonicClock(t *testing.T) {
	b0, m0 := Now(), time.Now()
	if b0 <= 0 {
		t.Fatalf("now = %d, want a positive instant", b0)
	}
	time.Sleep(30 * time.Millisecond)
	m1, b1 := time.Now(), Now()
	// b0 before m0 and m1 before b1: the boot-time clock saw at least as much.
	if got, least := b1.Sub(b0), m1.Sub(m0); got < least-time.Millisecond {
		t.Errorf("boot time advanced by %v, monotonic time by %v", got, least)
	}
}

func TestNowNeverGoesBack(t *testing.T) {
	last := Now()
	for range 100_000 {
		n := Now()
		if n < last {
			t.Fatalf("%d after %d", n, last)
		}
		last = n
	}
}

func TestPassedBelievesTheClockThatWentFurther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		mono := time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "mono"))
		wall := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "wall"))
		if got := passed(start, start.Add(mono)); got != mono {
			t.Fatalf("both clocks by %v: passed %v", mono, got)
		}
		if got, want := passed(start.Round(0), start.Round(0).Add(wall)), max(wall, 0); got != want {
			t.Fatalf("wall clock by %v: passed %v, want %v", wall, got, want)
		}
	})
}

func TestBubbleFollowsItsFakeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := Now()
		time.Sleep(time.Hour)
		if got := Now().Sub(start); got != time.Hour {
			t.Errorf("an hour's sleep took %v", got)
		}
	})
}

func TestTimerFiresAtItsInstantAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{-time.Second, 0, 1, slice - 1, slice, slice + 1, time.Minute} {
			at := Now().Add(d)
			fired := make(chan Instant, 1)
			AfterFunc(at, func() { fired <- Now() })
			if got := <-fired; got < at || got > max(at, at.Add(-d)) {
				t.Errorf("timer for %v fired %v off", d, got.Sub(at))
			}
		}
	})
}

func TestTimerResetAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fired atomic.Int64
		tm := AfterFunc(Now().Add(time.Second), func() { fired.Add(1) })
		for range 100 { // moved on each half second, it never fires
			time.Sleep(500 * time.Millisecond)
			if !tm.Reset(Now().Add(time.Second)) {
				t.Fatal("a waiting timer said that it had fired")
			}
		}
		if n := fired.Load(); n != 0 {
			t.Fatalf("fired %d times while it was moved on", n)
		}
		if !tm.Stop() || tm.Stop() {
			t.Error("Stop must be true once")
		}
		time.Sleep(time.Minute)
		if n := fired.Load(); n != 0 {
			t.Fatalf("fired %d times after Stop", n)
		}
		if tm.Reset(Now().Add(time.Millisecond)) {
			t.Error("a stopped timer said that it was waiting")
		}
		time.Sleep(time.Second)
		if n := fired.Load(); n != 1 {
			t.Fatalf("fired %d times after Reset, want once", n)
		}
	})
}

func TestTimerOnTheRealClock(t *testing.T) {
	at := Now().Add(20 * time.Millisecond)
	fired := make(chan Instant)
	AfterFunc(at, func() { fired <- Now() })
	if got := <-fired; got < at {
		t.Errorf("fired %v early", at.Sub(got))
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
