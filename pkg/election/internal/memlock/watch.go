package memlock

import (
	"context"
	"slices"
	"sync"

	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// watch carries changes from the store to one candidate. Its queue has no
// bound, so that the store never waits.
type watch struct {
	mu     sync.Mutex
	queue  []core.Observation
	held   bool
	broken bool
	wake   chan struct{}
}

func (l *Lock) watch() *watch {
	w := &watch{wake: make(chan struct{}, 1)}
	l.mu.Lock()
	w.held = l.held
	l.watches = append(l.watches, w)
	l.mu.Unlock()

	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Exists {
		w.queue = append(w.queue, s.now)
	}
	s.watches[w] = struct{}{}
	return w
}

func (l *Lock) forget(w *watch) {
	l.store.mu.Lock()
	delete(l.store.watches, w)
	l.store.mu.Unlock()

	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = slices.DeleteFunc(l.watches, func(o *watch) bool { return o == w })
}

func (w *watch) push(o core.Observation) { w.change(func() { w.queue = append(w.queue, o) }) }
func (w *watch) hold(held bool)          { w.change(func() { w.held = held }) }
func (w *watch) breakOff()               { w.change(func() { w.broken = true }) }

func (w *watch) change(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next returns the oldest change that may be delivered now.
func (w *watch) next() (o core.Observation, ok, broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		return o, false, false
	}
	if w.broken {
		return o, false, true
	}
	if len(w.queue) == 0 {
		return o, false, false
	}
	o = w.queue[0]
	w.queue = w.queue[1:]
	return o, true, false
}

// run delivers until ctx ends or the watch breaks.
func (w *watch) run(ctx context.Context, out chan<- core.Observation) {
	for {
		o, ok, broken := w.next()
		switch {
		case broken:
			return
		case ok:
			select {
			case out <- o:
			case <-ctx.Done():
				return
			}
		default:
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}
