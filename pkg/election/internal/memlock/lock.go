package memlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// Op names a method of a lock.
type Op string

// The methods of a lock.
const (
	Read   Op = "read"
	Create Op = "create"
	Update Op = "update"
	Watch  Op = "watch"
)

// Call is a request about to leave a candidate.
type Call struct {
	Op     Op
	Record core.Record      // of Create and Update
	Base   core.Observation // of Update
}

// Fault is what happens to a request and its answer. The zero value is no
// fault. Fields combine, in the order in which they are listed.
type Fault struct {
	// Refuse answers at once that the request is refused for good, wrapping
	// election.ErrRefused.
	Refuse bool
	// Err answers with this error, and the store never sees the request.
	Err error
	// Hang loses the request: the caller waits until its context ends.
	Hang bool
	// Delay is how long the request travels. It arrives even when its caller
	// has given up meanwhile, as on a network.
	Delay time.Duration
	// LoseAnswer lets the store do its work, and fails the caller with an
	// error that does not tell.
	LoseAnswer bool
	// HangAnswer lets the store do its work, and lets the caller wait until
	// its context ends.
	HangAnswer bool
	// DelayAnswer is how long the answer travels.
	DelayAnswer time.Duration
}

// ErrLost is what a caller gets whose answer was lost.
var ErrLost = errors.New("connection lost")

// Lock is one candidate's connection to a Store. It implements election.Lock
// and is safe for concurrent use.
type Lock struct {
	store *Store
	name  string

	mu        sync.Mutex
	intercept func(Call) Fault
	held      bool
	watches   []*watch
}

// Intercept has f decide about the fate of each later request. Nil lets all
// pass. It may be called from several goroutines at once.
func (l *Lock) Intercept(f func(Call) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intercept = f
}

// HoldWatches makes the candidate's watches deaf, or lets them hear again what
// happened meanwhile. Later watches are deaf as well while it holds. A deaf
// watch does not hear that the store broke it either.
func (l *Lock) HoldWatches(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = hold
	for _, w := range l.watches {
		w.hold(hold)
	}
}

// BreakWatches ends the candidate's watches, deaf ones included.
func (l *Lock) BreakWatches() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.watches {
		w.hold(false)
		w.breakOff()
	}
}

// String names the lock.
func (l *Lock) String() string { return "memory " + l.name }

// Read implements election.Lock.
func (l *Lock) Read(ctx context.Context) (core.Observation, error) {
	return l.do(ctx, Call{Op: Read}, func() (core.Observation, error) { return l.store.read(), nil })
}

// Create implements election.Lock.
func (l *Lock) Create(ctx context.Context, r core.Record) (core.Observation, error) {
	return l.do(ctx, Call{Op: Create, Record: r}, func() (core.Observation, error) { return l.store.create(r) })
}

// Update implements election.Lock.
func (l *Lock) Update(ctx context.Context, base core.Observation, r core.Record) (core.Observation, error) {
	return l.do(ctx, Call{Op: Update, Record: r, Base: base}, func() (core.Observation, error) { return l.store.update(base, r) })
}

// Watch implements election.Lock. It begins with the present state, as a
// Kubernetes watch without a resourceVersion does.
func (l *Lock) Watch(ctx context.Context) (<-chan core.Observation, error) {
	var w *watch
	_, err := l.do(ctx, Call{Op: Watch}, func() (core.Observation, error) {
		if ctx.Err() != nil { // nobody waits for it any more
			return core.Observation{}, ctx.Err()
		}
		w = l.watch()
		return core.Observation{}, nil
	})
	if err != nil {
		return nil, err
	}
	out := make(chan core.Observation)
	go func() {
		defer close(out)
		w.run(ctx, out)
		l.forget(w)
	}()
	return out, nil
}

// do carries one request to the store and its answer back, through the faults.
func (l *Lock) do(ctx context.Context, c Call, serve func() (core.Observation, error)) (core.Observation, error) {
	var f Fault
	l.mu.Lock()
	intercept := l.intercept
	l.mu.Unlock()
	if intercept != nil {
		f = intercept(c)
	}
	fail := func(err error) (core.Observation, error) {
		return core.Observation{}, fmt.Errorf("%s %s: %w", c.Op, l, err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	switch {
	case f.Refuse:
		return fail(core.ErrRefused)
	case f.Err != nil:
		return fail(f.Err)
	case f.Hang:
		<-ctx.Done()
		return fail(ctx.Err())
	}

	type answer struct {
		o   core.Observation
		err error
	}
	answers := make(chan answer, 1)
	arrive := func() {
		o, err := serve()
		answers <- answer{o, err}
	}
	if f.Delay > 0 {
		time.AfterFunc(f.Delay, arrive)
	} else {
		arrive()
	}
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	if f.LoseAnswer {
		return fail(ErrLost)
	}
	if f.HangAnswer {
		<-ctx.Done()
		return fail(ctx.Err())
	}
	if f.DelayAnswer > 0 {
		select {
		case <-time.After(f.DelayAnswer):
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
	if a.err != nil {
		return fail(a.err)
	}
	return a.o, nil
}
