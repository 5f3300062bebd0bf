//go:build unix

package process

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// lapsing returns a grant that ends soon, of which a handler is told later than
// its command. It is longer than a busy machine needs to start one.
func lapsing(t *testing.T) *worker.Grant {
	t.Helper()
	g := worker.NewGrant(t.Context(), testTerm(), boottime.Now().Add(4*time.Second), 500*time.Millisecond)
	t.Cleanup(func() { g.End(nil) })
	return g
}

// asked waits until a command was asked to stop so many times.
func asked(t *testing.T, record string, times int) {
	t.Helper()
	eventually(t, 30*time.Second, "the command is asked to stop", func() (so bool) {
		n := 0
		for _, e := range readRecord(t, record) {
			if e.what == "got terminated" {
				n++
			}
		}
		return n == times
	})
}

// A command that exits with code 0 when its grant lapses has not done its work,
// and one that exits with another has not failed: the handler returns only when
// it was asked to itself.
func TestACommandIsAskedToStopBeforeItsHandlerIs(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"0", "3"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			record := filepath.Join(t.TempDir(), "record")
			r := newRunner(t, commandOf(t, "-record", record, "-code", code))
			told := false
			err := lapsing(t).Run(func(ctx context.Context, term worker.Term) error {
				err := r.Handle(ctx, term)
				told = ctx.Err() != nil
				return err
			}, nil)
			asked(t, record, 1)
			if got := strconv.Itoa(ExitCode(err)); !told || got != code {
				t.Errorf("exit code %s, and the handler was told: %t", got, told)
			}
		})
	}
}

// A context that outlives the grant does not hold the handler up.
func TestALapseIsOverAtTheDeadline(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record")
	r := newRunner(t, commandOf(t, "-record", record, "-code", "3"))
	g, ended := lapsing(t), make(chan error, 1)
	go func() { ended <- r.Handle(t.Context(), g.Term()) }()
	select {
	case err := <-ended:
		if ExitCode(err) != 3 || g.Term().Check() == nil {
			t.Errorf("before the deadline, or not how it ended: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("still waiting")
	}
}

// A renewal that comes when the command was asked to stop starts it again, at
// once, in the same term.
func TestALateRenewalStartsTheCommandAgain(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record")
	r := newRunner(t, commandOf(t, "-record", record, "-tidy", "100ms"))
	g, ended := lapsing(t), make(chan error, 1)
	go func() { ended <- g.Run(r.Handle, nil) }()
	asked(t, record, 1)
	if !g.Extend(boottime.Now().Add(time.Minute)) {
		t.Fatal("the grant was over already")
	}
	begun(t, record, 2)
	g.Drain(errors.New("that is all"))
	if err := <-ended; err != nil {
		t.Error(err)
	}
	asked(t, record, 2)
}

// So does a run for an event, which gets its event again.
func TestALateRenewalMakesTheRunForAnEventAgain(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record")
	c := shell(`if [ -e "$1" ]; then cat; exit; fi; touch "$1"
		trap 'echo "$$ 0 got terminated" >> "$1"; exit 0' TERM; while :; do sleep 0.02; done`)
	c.Args, c.Time = append(c.Args, "sh", record), time.Minute
	g, published, ended := lapsing(t), []string{}, make(chan error, 1)
	r := newRunner(t, c)
	go func() {
		ended <- r.HandleEvent(g.Context(), g.Term(), []byte(anEvent), func(_ context.Context, e []byte) error {
			published = append(published, string(e))
			return nil
		})
	}()
	asked(t, record, 1)
	if !g.Extend(boottime.Now().Add(time.Minute)) {
		t.Fatal("the grant was over already")
	}
	if err := <-ended; err != nil || len(published) != 1 || published[0] != anEvent {
		t.Errorf("published %q, %v", published, err)
	}
}
