package testenv

import (
	"testing"
	"time"
)

// pollEvery is short against everything that is waited for, and long enough
// that a waiting test leaves the machine to the servers it waits for.
const pollEvery = 5 * time.Millisecond

// Eventually calls check until it returns nil. When that has not happened
// within timeout, it ends the test with check's last error. It must be called
// from the goroutine that runs the test.
func Eventually(tb testing.TB, timeout time.Duration, check func() error) {
	tb.Helper()
	if err := poll(timeout, check, func(err error) bool { return err == nil }); err != nil {
		tb.Fatalf("not so within %s: %v", timeout, err)
	}
}

// Always calls check until duration is over, and ends the test at the first
// error. Use it for what must not happen, such as a second event. It must be
// called from the goroutine that runs the test.
func Always(tb testing.TB, duration time.Duration, check func() error) {
	tb.Helper()
	start := time.Now()
	if err := poll(duration, check, func(err error) bool { return err != nil }); err != nil {
		tb.Fatalf("no longer so after %s: %v", time.Since(start).Round(time.Millisecond), err)
	}
}

// poll calls check, at least twice, until done accepts its result or the time
// is over, and returns the last result.
func poll(limit time.Duration, check func() error, done func(error) bool) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := check(); done(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			// The last look is taken after the deadline, so that a check
			// that was starved of processor time gets its chance.
			return check()
		}
	}
}
