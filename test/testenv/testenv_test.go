package testenv_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// recorder is a testing.TB that records how a test ended. Only the methods
// that this package calls are there; any other would panic.
type recorder struct {
	testing.TB
	failure string
}

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure runs f as a test of its own and returns how it failed.
func failure(f func(tb testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.failure
}

func TestEventually(t *testing.T) {
	calls := 0
	third := func() error {
		if calls++; calls < 3 {
			return fmt.Errorf("call %d", calls)
		}
		return nil
	}
	if got := failure(func(tb testing.TB) { testenv.Eventually(tb, time.Minute, third) }); got != "" || calls != 3 {
		t.Errorf("nil at the third call: %q after %d calls, want success after 3", got, calls)
	}
	got := failure(func(tb testing.TB) {
		testenv.Eventually(tb, 20*time.Millisecond, func() error { return errors.New("still dark") })
	})
	if !strings.Contains(got, "20ms") || !strings.Contains(got, "still dark") {
		t.Errorf("never nil: %q, want the limit and the last error", got)
	}
	late := true
	if got := failure(func(tb testing.TB) {
		testenv.Eventually(tb, 0, func() error {
			if late {
				late = false
				return errors.New("late")
			}
			return nil
		})
	}); got != "" {
		t.Errorf("nil at the look after the deadline: %q, want success", got)
	}
}

func TestAlways(t *testing.T) {
	start := time.Now()
	if got := failure(func(tb testing.TB) {
		testenv.Always(tb, 30*time.Millisecond, func() error { return nil })
	}); got != "" || time.Since(start) < 30*time.Millisecond {
		t.Errorf("always nil: %q after %s, want success after 30 ms", got, time.Since(start))
	}
	got := failure(func(tb testing.TB) {
		testenv.Always(tb, time.Minute, func() error { return errors.New("a second event") })
	})
	if !strings.Contains(got, "a second event") {
		t.Errorf("an error: %q, want it in the failure", got)
	}
}

func TestFreePort(t *testing.T) {
	for range 20 {
		port, err := testenv.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatalf("listen on the free port: %v", err)
		}
		defer func() { _ = l.Close() }()
	}
}

// Servers of tests that run side by side draw their ports before they listen.
func TestFreePortIsNeverTheSame(t *testing.T) {
	had := map[int]bool{}
	for range 500 {
		port, err := testenv.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if had[port] {
			t.Fatalf("port %d was given twice", port)
		}
		had[port] = true
	}
}
