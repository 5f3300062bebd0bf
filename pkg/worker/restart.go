package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// Restart starts a failing handler again within its term. The zero value uses
// the defaults given at each field.
type Restart struct {
	// First is the pause after the first failure; each further one doubles it.
	// 1 s when zero. Shorter pauses recover faster and load more what is down.
	First time.Duration
	// Longest bounds the pause; 30 s when zero. A run that lasts at least as
	// long counts as a success: the next failure is a first one again.
	Longest time.Duration
	// Failures is the number of failures in a row after which the handler
	// gives up with a *[GiveBackError]; 5 when zero. Fewer let another worker
	// try sooner, and let a passing fault move the work needlessly.
	Failures int
	// CoolDown is how long this worker then stays away; 1 min when zero.
	CoolDown time.Duration
	// Logger gets one warning for each failure; nil for none.
	Logger *slog.Logger
}

// Handler returns a handler that runs h until it returns nil, the context
// ends, or it has failed too often. A panic of h is a failure like an error.
// An error that is itself a *[GiveBackError] is returned at once.
func (r Restart) Handler(h Handler) Handler {
	r = r.withDefaults()
	return func(ctx context.Context, t Term) error {
		failures := 0
		for {
			began := boottime.Now()
			err := call(ctx, h, t)
			if err == nil || ctx.Err() != nil {
				return err
			}
			if _, asked := errors.AsType[*GiveBackError](err); asked {
				return err
			}
			failures = r.count(failures, boottime.Now().Sub(began))
			if failures >= r.Failures {
				return &GiveBackError{Failures: failures, CoolDown: r.CoolDown, Err: err}
			}
			pause := r.pause(failures)
			if r.Logger != nil {
				r.Logger.WarnContext(ctx, "handler failed, starting it again",
					"error", err, "role", t.Role, "epoch", t.Epoch, "failures", failures, "pause", pause)
			}
			wait := time.NewTimer(pause)
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				return err
			}
		}
	}
}

func (r Restart) withDefaults() Restart {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&r.First, time.Second)
	set(&r.Longest, 30*time.Second)
	set(&r.CoolDown, time.Minute)
	if r.Failures <= 0 {
		r.Failures = 5
	}
	return r
}

// count returns the number of failures in a row after one more, which came
// when the handler had run for ran.
func (r Restart) count(before int, ran time.Duration) int {
	if ran >= r.Longest {
		return 1
	}
	return before + 1
}

// pause returns how long to wait after that many failures in a row.
func (r Restart) pause(failures int) time.Duration {
	d := r.First
	for ; failures > 1 && d < r.Longest; failures-- {
		d *= 2
	}
	return min(d, r.Longest)
}

// GiveBackError is returned by a handler that cannot do its work here: the
// worker is to give the grant back, and not to ask for one in the same role
// until the cool-down is over, so that another worker can try.
type GiveBackError struct {
	// Failures is how often in a row the work failed.
	Failures int
	// CoolDown is how long to stay away.
	CoolDown time.Duration
	// Err is the last failure.
	Err error
}

func (e *GiveBackError) Error() string {
	return fmt.Sprintf("giving the grant back for %v after %d failures in a row: %v", e.CoolDown, e.Failures, e.Err)
}

// Unwrap returns the last failure.
func (e *GiveBackError) Unwrap() error { return e.Err }
