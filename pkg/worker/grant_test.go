package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunReturnsWhatTheHandlerReturns(t *testing.T) {
	for _, want := range []error{nil, errors.New("broken")} {
		g := NewGrant(t.Context(), facts(), in(time.Minute), time.Second)
		var got Term
		err := g.Run(func(ctx context.Context, term Term) error {
			got = term
			return errors.Join(term.Check(), ctx.Err(), want)
		}, nil)
		if !errors.Is(err, want) {
			t.Errorf("run = %v, want %v", err, want)
		}
		if got.Epoch != 7 {
			t.Errorf("the handler got %+v", got)
		}
		if g.Term().Check() == nil || g.Context().Err() == nil {
			t.Error("the grant must be over when the handler has returned")
		}
	}
}

// Field case 41: a panic in the leader's function must end its term.
func TestRunTurnsAPanicIntoAnError(t *testing.T) {
	boom := errors.New("boom")
	g := NewGrant(t.Context(), facts(), in(time.Minute), time.Second)
	err := g.Run(func(context.Context, Term) error { panic(boom) }, nil)
	var p *PanicError
	if !errors.As(err, &p) || !errors.Is(err, boom) || len(p.Stack) == 0 {
		t.Fatalf("run = %#v", err)
	}
	if g.Term().Check() == nil {
		t.Error("the grant outlives the panic")
	}
}

// Field case 91: a handler that hangs is reported at the hard deadline,
// wherever renewals have moved it, and not before.
func TestRunReportsAHandlerThatOverrunsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(10*time.Second), 2*time.Second)
		release := make(chan struct{})
		var overran atomic.Int64
		done := make(chan error)
		go func() {
			done <- g.Run(func(context.Context, Term) error {
				<-release
				return nil
			}, func(term Term) {
				if term.Check() == nil {
					t.Error("reported although the term is valid")
				}
				overran.Store(int64(Now()))
			})
		}()
		time.Sleep(5 * time.Second)
		g.Extend(in(10 * time.Second))
		end := g.Term().Deadline()
		time.Sleep(time.Hour)
		if got := Instant(overran.Load()); got != end {
			t.Errorf("reported %v after the deadline", got.Sub(end))
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunDoesNotReportAHandlerThatReturnsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrant(t.Context(), facts(), in(10*time.Second), 2*time.Second)
		err := g.Run(func(ctx context.Context, _ Term) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, func(Term) { t.Error("reported an overrun") })
		if !errors.Is(err, errLapsing) {
			t.Errorf("run = %v", err)
		}
		time.Sleep(time.Hour)
	})
}
