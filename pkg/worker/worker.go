package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/claim"
)

// ErrOverrun is returned by [Worker.Run] when the handler was still running at
// the end of its grant. It may be running yet: a Go function cannot be stopped
// from outside. A program that gets this error must end at once, since another
// worker may be at work from now on.
var ErrOverrun = errors.New("the handler was still running at the end of its grant")

// Worker runs a handler whenever, and for as long as, it holds the grant of its
// role. Create it with [New] and call Run once. Any number of workers, of any
// roles and elections, may share a connection.
type Worker struct {
	nc       *nats.Conn
	log      *events.Log
	opts     Options
	instance string
	started  atomic.Bool
	seen     atomic.Pointer[Snapshot]
}

// New returns a worker. The connection may not be up yet. It stays the
// caller's, and should reconnect for ever.
func New(nc *nats.Conn, o Options) (*Worker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("make a worker: %w", err)
	}
	// Open asks nothing of the server for a log that is only read.
	log, err := events.Open(context.Background(), nc, o.Log)
	if err != nil {
		return nil, fmt.Errorf("make a worker: %w", err)
	}
	return &Worker{nc: nc, log: log, opts: o, instance: nuid.Next()}, nil
}

// Identity returns the worker's identity.
func (w *Worker) Identity() string { return w.opts.Identity }

// Role returns the worker's role, also one that was not chosen.
func (w *Worker) Role() string { return w.opts.Role }

// Run asks for the grant whenever there is a leader to give it, and runs the
// handler while it lasts, one run after the other, until ctx ends or the work
// is done.
//
// When ctx ends, a running handler is asked to stop, its grant is renewed until
// it has returned, and is then given back: Run returns nil. It also returns nil
// when the handler has returned nil by itself: the work is done, and the grant
// free for another worker. A handler that keeps failing gives the grant back
// for a while (see [Restart]) and does not end Run.
//
// Run returns [ErrOverrun], or an error when the connection is closed for good.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("run a worker: Run was called twice")
	}
	r, err := w.newRun()
	if err != nil {
		return fmt.Errorf("run a worker: %w", err)
	}
	defer r.close()
	return r.loop(ctx)
}

// run is what belongs to one call of Run. Its goroutine owns the state.
type run struct {
	*Worker
	state *claim.State
	links

	inputs chan claim.Input
	over   chan struct{} // closed when the loop has ended
	lost   chan error    // the log's follower has given up
	stop   context.CancelFunc
	life   context.Context
	wg     sync.WaitGroup

	grant   *Grant // the latest one
	holds   bool   // it has not been given back
	since   time.Time
	gone    error // why nobody can be reached any more
	current bool  // what the log last said
	logErr  error
	epoch   uint64
	leader  string
	spans   *spans
}

func (w *Worker) newRun() (*run, error) {
	r := &run{
		Worker: w, state: claim.New(),
		inputs: make(chan claim.Input), over: make(chan struct{}), lost: make(chan error, 1),
		spans: newSpans(w.opts),
	}
	r.life, r.stop = context.WithCancel(context.Background())
	if err := r.connect(); err != nil {
		r.close()
		return nil, err
	}
	r.wg.Go(r.follow)
	return r, nil
}

// close ends everything but a handler that overran.
func (r *run) close() {
	close(r.over)
	r.stop()
	r.disconnect()
	r.wg.Wait()
}

// tell hands an input to the loop, from any other goroutine.
func (r *run) tell(in claim.Input) {
	select {
	case r.inputs <- in:
	case <-r.over:
	}
}

// maxNap bounds the loop's sleep: the runtime's timers stand still during a
// suspend of the machine.
const maxNap = time.Second

func (r *run) loop(ctx context.Context) error {
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var in claim.Input = claim.Tick{}
		select {
		case <-timer.C:
		case in = <-r.inputs:
		case err := <-r.lost:
			r.gone, in = err, claim.Stop{}
		case <-stop:
			stop, in = nil, claim.Stop{}
		}
		over, err := r.step(in)
		r.show()
		if over {
			return err
		}
		timer.Reset(max(0, min(boottime.Until(r.state.Wake()), maxNap)))
	}
}

func (r *run) step(in claim.Input) (over bool, err error) {
	now := boottime.Now()
	in, dealt := r.note(in)
	defer dealt()
	if _, ok := in.(claim.HandlerEnded); ok {
		r.holds = false
		// Afterwards: the grant may have told the handler before the state,
		// which then begins the stop in this very step.
		defer r.spans.stopped(nil)
	}
	for _, a := range r.state.Step(claim.Moment{Now: now, Rand: rand.Float64()}, in) { // #nosec G404 -- it only spreads load
		switch a := a.(type) {
		case claim.Ask:
			r.ask(a.Seq)
		case claim.Return:
			r.giveBack(a.Seq)
		case claim.Start:
			r.begin(now, a)
		case claim.Extend:
			r.grant.Extend(a.Deadline)
		case claim.Cancel:
			r.opts.Logger.Info("stopping the work", "role", r.opts.Role, "epoch", r.grant.Term().Epoch, "why", a.Why.String())
			r.spans.cancel(r.grant.Term().Epoch, a.Why)
			r.grant.Drain(stopError{a.Why})
		case claim.Finish:
			if a.Overrun {
				r.grant.End(ErrOverrun)
				r.spans.stopped(ErrOverrun)
				return true, fmt.Errorf("role %q, epoch %d: %w", r.opts.Role, r.grant.Term().Epoch, ErrOverrun)
			}
			return true, r.gone
		}
	}
	return false, nil
}

// stopError is the cause of a cancelled handler's context.
type stopError struct{ why claim.Why }

func (e stopError) Error() string { return "stop: " + e.why.String() }

func (r *run) begin(now boottime.Instant, a claim.Start) {
	term := Term{Election: r.opts.Election, Role: r.opts.Role, Epoch: a.Epoch, Leader: a.Leader, Identity: r.opts.Identity}
	g := NewGrant(context.Background(), term, a.Deadline, claim.Notice(a.Deadline.Sub(now)))
	r.grant, r.holds, r.since = g, true, time.Now()
	started := r.spans.start(a.Epoch)
	r.opts.Logger.Info("starting the work", "role", term.Role, "epoch", term.Epoch, "leader", term.Leader, "worker", term.Identity)
	// Not part of the wait group: a function that overruns is not waited for.
	go func() {
		asked := false
		err := g.Run(func(ctx context.Context, t Term) error {
			started()
			err := r.opts.Handler(ctx, t)
			asked = ctx.Err() != nil
			return err
		}, nil)
		r.tell(r.outcome(err, asked))
	}()
}

// outcome judges how a handler ended.
func (r *run) outcome(err error, asked bool) claim.HandlerEnded {
	var back *GiveBackError
	switch {
	case errors.As(err, &back):
		r.opts.Logger.Error("the work keeps failing here, leaving it to another worker for a while",
			"role", r.opts.Role, "error", back.Err, "failures", back.Failures, "coolDown", back.CoolDown)
		return claim.HandlerEnded{CoolDown: back.CoolDown}
	case err == nil && !asked:
		return claim.HandlerEnded{Done: true}
	case err != nil:
		level := slog.LevelDebug // it was asked to stop, and says so
		if !asked {
			level = slog.LevelWarn
		}
		r.opts.Logger.Log(r.life, level, "the work has ended", "role", r.opts.Role, "error", err)
	}
	return claim.HandlerEnded{}
}
