package election

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// answer hands a result to the loop, unless Run is over.
func (r *run) answer(in core.Input) {
	select {
	case r.results <- in:
	case <-r.requests.Done():
	}
}

func (r *run) read(a core.Read) {
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(r.requests, r.opts.RequestTimeout)
		defer cancel()
		obs, err := r.lock.Read(ctx)
		r.note(reading, err)
		if err != nil {
			r.answer(core.ReadFailed{ID: a.ID})
			return
		}
		r.answer(core.ReadDone{ID: a.ID, Obs: obs})
	})
}

func (r *run) write(a core.Write) {
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(r.requests, r.opts.RequestTimeout)
		defer cancel()
		var obs Observation
		var err error
		start := time.Now()
		if a.Base.Exists {
			obs, err = r.lock.Update(ctx, a.Base, a.Record)
		} else {
			obs, err = r.lock.Create(ctx, a.Record)
		}
		if wrote := r.opts.Hooks.Wrote; wrote != nil && a.Kind != core.Renew {
			wrote(Write{Release: a.Kind == core.Release, Start: start, End: time.Now(), Err: err})
		}
		switch {
		case err == nil:
			r.note(writing, nil)
			r.answer(core.WriteDone{ID: a.ID, Obs: obs})
		case errors.Is(err, ErrConflict):
			r.opts.Logger.Debug("somebody else wrote first", "lock", r.lock.String())
			r.answer(core.WriteFailed{ID: a.ID, Outcome: core.Conflict})
		case errors.Is(err, ErrRefused):
			r.note(writing, err)
			r.answer(core.WriteFailed{ID: a.ID, Outcome: core.Refused})
		default:
			r.note(writing, err)
			r.answer(core.WriteFailed{ID: a.ID, Outcome: core.UnknownOutcome})
		}
	})
}

// startWatch opens the watch after a pause, in a goroutine that ends when it
// stands.
func (r *run) startWatch(pause time.Duration) {
	r.wg.Go(func() {
		if !sleep(r.requests, pause) {
			return
		}
		for {
			w, err := r.lock.Watch(r.requests)
			if err == nil {
				r.note(watching, nil)
				select {
				case r.watches <- w:
				case <-r.requests.Done():
				}
				return
			}
			r.note(watching, err)
			if !sleep(r.requests, r.watchPause.NextBackOff()) {
				return
			}
		}
	})
}

func (r *run) watched(obs Observation, ok bool) core.Input {
	if !ok {
		r.watch = nil
		r.startWatch(r.watchPause.NextBackOff())
		return core.WatchDown{}
	}
	r.watchPause.Reset()
	if r.opts.Hooks.Heard != nil {
		r.opts.Hooks.Heard()
	}
	return core.Watched{Obs: obs}
}

// sleep waits, and reports whether it waited to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	if d == backoff.Stop {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// request is a kind of request. Each has its own faults: a candidate that may
// read and not write has not recovered with the next read.
type request int

const (
	reading request = iota
	writing
	watching
	requestKinds
)

// note keeps the last error for Snapshot and logs it when it is news: once for
// each text, and once when requests of the kind succeed again.
func (r *run) note(kind request, err error) {
	if err != nil && r.requests.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults.note(kind, err)
	r.status.LastError = r.faults.worst()
}

// faults folds repeated errors.
type faults struct {
	logger *slog.Logger
	lock   string
	last   [requestKinds]string
}

func (f *faults) note(kind request, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == f.last[kind]:
		return
	case text == "":
		f.logger.Info("requests to the lock succeed again", "lock", f.lock)
	default:
		f.logger.Warn("a request to the lock has failed", "lock", f.lock, "error", text)
	}
	f.last[kind] = text
}

// worst is the error that matters most: what keeps a candidate from writing
// keeps it from leading.
func (f *faults) worst() string {
	for _, kind := range []request{writing, reading, watching} {
		if f.last[kind] != "" {
			return f.last[kind]
		}
	}
	return ""
}
