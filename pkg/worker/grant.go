package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// Handler is the work of a term. Its context ends before the term's deadline,
// so that it can return in time; it must not go on past the deadline, nor
// leave goroutines behind that do. Returning nil means that the work is done;
// returning an error gives the grant up.
//
// The context has no Deadline, since the end of the term moves with every
// renewal of the grant. [context.Cause] tells why it ended.
type Handler func(ctx context.Context, t Term) error

// Grant is the owner's side of a [Term]. Its methods are safe for concurrent
// use. A Grant that is no longer needed must be ended.
type Grant struct {
	term   Term
	notice time.Duration

	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *boottime.Timer
}

// NewGrant begins the term whose facts t holds. The term is valid until the
// deadline, and its context, derived from parent, ends notice before that.
// A deadline already past makes a term that is over.
func NewGrant(parent context.Context, t Term, deadline Instant, notice time.Duration) *Grant {
	t.v = &validity{changed: make(chan struct{})}
	t.v.deadline.Store(int64(deadline))
	g := &Grant{term: t, notice: notice}
	g.ctx, g.cancel = context.WithCancelCause(parent)
	ready := make(chan struct{})
	defer close(ready)
	g.timer = boottime.AfterFunc(deadline.Add(-notice), func() {
		<-ready
		g.lapse()
	})
	return g
}

// Term returns the term, to be handed to whoever acts under it.
func (g *Grant) Term() Term { return g.term }

// Context returns the context that ends when the work must stop.
func (g *Grant) Context() context.Context { return g.ctx }

// Extend moves the deadline forward; an earlier one than the present is
// ignored, as answers may arrive out of order. It reports whether the term
// goes on: one that has lapsed or was ended cannot be revived.
func (g *Grant) Extend(deadline Instant) bool {
	if !g.term.v.extend(deadline) {
		return false
	}
	if g.ctx.Err() == nil {
		g.timer.Reset(g.term.Deadline().Add(-g.notice))
	}
	return true
}

// Drain asks the handler to stop: its context ends, while the term stays valid
// for what it still has to tidy up.
func (g *Grant) Drain(why error) {
	g.timer.Stop()
	g.cancel(why)
}

// End ends the term at once, before its time, and the context with it.
func (g *Grant) End(why error) {
	g.timer.Stop()
	g.term.v.end(why)
	g.cancel(g.term.over(why))
}

// lapse runs when notice has to be given. The grant may have been prolonged
// just now.
func (g *Grant) lapse() {
	at := g.term.Deadline().Add(-g.notice)
	if boottime.Now() < at {
		if g.ctx.Err() == nil {
			g.timer.Reset(at)
		}
		return
	}
	g.cancel(errLapsing)
}

var (
	errLapsing  = errors.New("the grant was not renewed in time")
	errReturned = errors.New("the handler has returned")
)

// Run calls h and waits until it has returned, however long that takes, so
// that two runs never overlap. A panic of h comes back as a *[PanicError].
// The grant is ended when Run returns.
//
// A Go function cannot be stopped from outside. When h is still running at the
// deadline, overrun is called once, in its own goroutine; ending the process
// is then the only way to keep the promise that nobody acts past their term.
// A nil overrun does nothing.
func (g *Grant) Run(h Handler, overrun func(Term)) error {
	defer g.End(errReturned)
	if overrun != nil {
		stop := g.onDeadline(overrun)
		defer stop()
	}
	return call(g.ctx, h, g.term)
}

// onDeadline calls f once the deadline has passed, wherever it has been moved
// to meanwhile.
func (g *Grant) onDeadline(f func(Term)) (stop func()) {
	var mu sync.Mutex
	var timer *boottime.Timer
	stopped := false
	mu.Lock()
	defer mu.Unlock()
	timer = boottime.AfterFunc(g.term.Deadline(), func() {
		mu.Lock()
		if stopped {
			mu.Unlock()
			return
		}
		if g.term.v.remaining() > 0 {
			timer.Reset(g.term.Deadline())
			mu.Unlock()
			return
		}
		mu.Unlock()
		f(g.term)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

func call(ctx context.Context, h Handler, t Term) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return h(ctx, t)
}

// PanicError reports that a handler panicked.
type PanicError struct {
	// Value is what was passed to panic.
	Value any
	// Stack is the stack of the panicking goroutine.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("the handler panicked: %v", e.Value) }

// Unwrap returns the panic's value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
