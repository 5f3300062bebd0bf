package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// ErrNotLeading is the answer to a request that only a leader can fulfil.
var ErrNotLeading = errors.New("this process does not lead")

// ErrDrainTimeout is what Run returns when the work of a term was still
// running at the end of the time that it had to stop. The lock was not
// released: it protects what still runs until it lapses.
var ErrDrainTimeout = errors.New("the work of the term did not end in time")

// Elector stands for one election. Create it with New and call Run once; the
// other methods may be called from any goroutine, before, during and after.
type Elector struct {
	lock Lock
	opts Options

	commands chan core.Input
	ended    chan struct{} // closed when Run has returned
	started  atomic.Bool

	mu     sync.Mutex
	status Snapshot
	term   *Term
}

// New returns a candidate for the election on the lock. The error, if any,
// wraps ErrInvalid.
func New(lock Lock, opts Options) (*Elector, error) {
	opts = opts.Default()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return &Elector{
		lock: lock, opts: opts,
		commands: make(chan core.Input),
		ended:    make(chan struct{}),
	}, nil
}

// Run stands for election, term after term, until ctx ends. It then ends a
// running term cleanly: the context of its Lead is cancelled, the lock is held
// until Lead has returned, at most for the drain timeout, and then released.
// It returns nil after a clean end, ErrDrainTimeout, or a *PanicError.
func (e *Elector) Run(ctx context.Context) error {
	if e.started.Swap(true) {
		return errors.New("run an election: Run was called twice")
	}
	defer close(e.ended)
	r := newRun(e)
	defer r.close()
	return r.loop(ctx)
}

// StepDown asks the leader to hand over, and returns when its term is over.
// preferred, if not empty, names the candidate that should be next: the others
// hold back for a moment. ErrNotLeading means that there is nothing to hand
// over.
func (e *Elector) StepDown(ctx context.Context, preferred string) error {
	term := e.Term()
	if term == nil {
		return ErrNotLeading
	}
	if err := e.command(ctx, core.EndTerm{Reason: core.StepDown, Preferred: preferred}); err != nil {
		return err
	}
	select {
	case <-term.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of the term: %w", context.Cause(ctx))
	}
}

// Stand says whether this process may lead. A leader that may not any more
// hands over with the reason Unhealthy; a standby waits until it may again.
func (e *Elector) Stand(ctx context.Context, yes bool) error {
	return e.command(ctx, core.Stand{Yes: yes})
}

func (e *Elector) command(ctx context.Context, in core.Input) error {
	select {
	case e.commands <- in:
		return nil
	case <-e.ended:
		return ErrNotLeading
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run is what belongs to one call of Run: its goroutine owns all of it.
type run struct {
	*Elector
	state *core.State

	results  chan core.Input
	stop     context.CancelFunc // ends requests and the watch
	requests context.Context
	wg       sync.WaitGroup

	watch      <-chan Observation
	watches    chan (<-chan Observation)
	watchPause *backoff.ExponentialBackOff

	term     *Term // the loop's own; Elector.term is its published copy
	termDone chan struct{}
	endWork  context.CancelCauseFunc
	epoch    uint64 // the number that the core knows
	panicked atomic.Pointer[PanicError]
	faults   faults
}

func newRun(e *Elector) *run {
	o := e.opts
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = o.RetryPeriod/8, o.RetryPeriod
	r := &run{
		Elector: e,
		state: core.New(core.Config{
			Identity:      o.Identity,
			LeaseDuration: o.LeaseDuration,
			RenewDeadline: o.RenewDeadline,
			RetryPeriod:   o.RetryPeriod,
			DrainTimeout:  o.DrainTimeout,
			Unfit:         o.Health != nil,
		}),
		results:    make(chan core.Input),
		watches:    make(chan (<-chan Observation)),
		watchPause: pause,
		faults:     faults{logger: o.Logger, lock: e.lock.String()},
	}
	r.requests, r.stop = context.WithCancel(context.Background())
	return r
}

// close ends what the loop started. Requests are cancelled, so nothing waits
// for a store that does not answer.
func (r *run) close() {
	r.stop()
	r.wg.Wait()
}

func (r *run) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	r.startWatch(0)
	if r.opts.Health != nil {
		r.wg.Go(func() { r.watchHealth(r.requests) })
	}
	for {
		var in core.Input = core.Tick{}
		select {
		case <-timer.C:
		case in = <-r.results:
		case in = <-r.commands:
		case obs, ok := <-r.watch:
			in = r.watched(obs, ok)
		case w := <-r.watches:
			r.watch, in = w, core.WatchUp{}
		case <-stop:
			stop, in = nil, core.Stop{}
		}
		m := moment()
		// The next renewal is early enough for it, so nothing wakes the loop.
		if t := r.term; t != nil && t.epoch.Load() != r.epoch {
			r.epoch = t.epoch.Load()
			if done, err := r.step(m, core.EpochIs{Epoch: r.epoch}); done {
				return err
			}
		}
		if done, err := r.step(m, in); done {
			return err
		}
		r.afterStep(m, timer)
	}
}

// step does what an input leads to, and reports whether candidacy is over.
func (r *run) step(m core.Moment, in core.Input) (over bool, err error) {
	for _, a := range r.state.Step(m, in) {
		if done, ok := a.(core.Done); ok {
			return true, r.result(done)
		}
		r.do(m, a)
	}
	return false, nil
}

func moment() core.Moment {
	return core.Moment{Now: core.Instant(boottime.Now()), Wall: time.Now(), Rand: rand.Float64()}
}

// maxNap bounds the sleep of a leader's loop. The runtime's timers stand still
// while the machine is suspended, so a term that ran out meanwhile is noticed
// this long after the resume; Term.Check notices at once (S6).
const maxNap = time.Second

func (r *run) afterStep(m core.Moment, timer *time.Timer) {
	if r.term != nil {
		r.term.deadline.Store(int64(r.state.ValidUntil()))
	}
	wake := r.state.Wake(m.Now)
	nap := wake.Sub(m.Now)
	if r.state.Leading() {
		nap = min(nap, maxNap)
	}
	// Nobody waits for longer than a lease duration, so that Snapshot.Turned
	// tells a loop that sleeps from one that is stuck.
	timer.Reset(min(nap, r.opts.LeaseDuration))
	r.publish()
}

func (r *run) result(d core.Done) error {
	r.publish()
	if p := r.panicked.Load(); p != nil {
		return p
	}
	if !d.Clean {
		return fmt.Errorf("stop standing for %s: %w", r.lock, ErrDrainTimeout)
	}
	return nil
}

func (r *run) do(m core.Moment, a core.Action) {
	switch a := a.(type) {
	case core.Read:
		r.read(a)
	case core.Write:
		r.write(a)
	case core.Begin:
		r.begin(a)
	case core.Drain:
		reason := reasonOf(a.Reason)
		r.opts.Logger.Info("leaving office once the work has ended", "lock", r.lock.String(), "reason", string(reason))
		r.endWork(&EndError{Reason: reason, Held: true})
	case core.End:
		r.end(m, a)
	case core.Changed:
		r.observe(stateOf(a.View))
	case core.Collision:
		r.opts.Logger.Error("another process writes under this identity: give each its own", "lock", r.lock.String(), "identity", r.opts.Identity)
	case core.Unsupported:
		r.opts.Logger.Error("the lock is managed by Kubernetes coordinated election: not standing", "lock", r.lock.String(), "strategy", a.Strategy)
	case core.Done:
	}
}

func (r *run) begin(a core.Begin) {
	done := make(chan struct{})
	t := &Term{info: a.Term, ended: done}
	t.deadline.Store(int64(r.state.ValidUntil()))
	ctx, cancel := context.WithCancelCause(r.requests)
	r.term, r.termDone, r.endWork, r.epoch = t, done, cancel, 0
	r.opts.Logger.Info("leading", "lock", r.lock.String(), "identity", r.opts.Identity)
	r.publish()
	r.wg.Go(func() {
		err := r.work(ctx, t)
		if p, ok := errors.AsType[*PanicError](err); ok {
			r.panicked.Store(p)
			r.answer(core.WorkOver{})
			r.answer(core.Stop{})
			return
		}
		if err != nil && ctx.Err() == nil {
			r.opts.Logger.Error("the work of the term has failed", "lock", r.lock.String(), "error", err)
		}
		r.answer(core.WorkOver{})
	})
}

func (r *run) work(ctx context.Context, t *Term) (err error) {
	if r.opts.Lead == nil {
		<-ctx.Done()
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return r.opts.Lead(ctx, t)
}

func (r *run) end(m core.Moment, a core.End) {
	t, reason := r.term, reasonOf(a.Reason)
	t.over.Store(true)
	r.endWork(&EndError{Reason: reason})
	close(r.termDone)
	r.term = nil
	level := slog.LevelInfo
	if reason != Released && reason != SteppedDown {
		level = slog.LevelWarn
	}
	r.opts.Logger.Log(r.requests, level, "no longer leading", "lock", r.lock.String(), "reason", string(reason))
	r.observe(State{Status: Ended, Observation: a.Obs, At: m.Wall, Own: true, Reason: reason})
}

func (r *run) observe(s State) {
	if s.Status != Ended {
		r.mu.Lock()
		before := r.status.State
		r.status.State, r.status.Known = s, true
		r.mu.Unlock()
		if !s.Own && (before.Status != s.Status || before.Holder() != s.Holder()) {
			// The labels tell people of a foreign application that shares the name.
			r.opts.Logger.Info("the election has a new state", "lock", r.lock.String(), "state", s.Status.String(), "holder", s.Observation.Record.Holder,
				"labels", LeaseLabels(s.Observation))
		}
	}
	if r.opts.Observe != nil {
		r.opts.Observe(s)
	}
}
