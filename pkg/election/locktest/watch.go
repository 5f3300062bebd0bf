package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// observer reads a watch and checks that it never goes backwards.
type observer struct {
	t    *testing.T
	ch   <-chan election.Observation
	last uint64
}

func watchLock(t *testing.T, l election.Lock) *observer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ch, err := l.Watch(ctx)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	return &observer{t: t, ch: ch}
}

// until returns the first observation that matches.
func (w *observer) until(match func(election.Observation) bool) election.Observation {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case o, open := <-w.ch:
			if !open {
				w.t.Fatal("the watch broke")
			}
			w.advance(o)
			if match(o) {
				return o
			}
		case <-timeout.C:
			w.t.Fatalf("the watch brought nothing that matches within %s; last revision %d", patience, w.last)
		}
	}
}

func (w *observer) advance(o election.Observation) {
	w.t.Helper()
	if o.Revision <= w.last {
		w.t.Fatalf("the watch went from revision %d to %+v", w.last, o)
	}
	w.last = o.Revision
}

// reach returns when the watch has brought this very state.
func (w *observer) reach(want election.Observation) {
	w.t.Helper()
	w.until(func(o election.Observation) bool { return same(o, want) })
}

// gone returns when the watch has brought a deletion, and its revision.
func (w *observer) gone() uint64 {
	w.t.Helper()
	return w.until(func(o election.Observation) bool { return !o.Exists }).Revision
}

// closed returns when the watch has ended.
func (w *observer) closed() {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case _, open := <-w.ch:
			if !open {
				return
			}
		case <-timeout.C:
			w.t.Fatalf("the watch is still open after %s", patience)
		}
	}
}

func (s suite) watchSeesChangesInOrder() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	early := watchLock(t, b) // before the lock exists
	o := mustCreate(t, a, record("a"))
	early.reach(o)
	late := watchLock(t, b)
	for _, holder := range []string{"a", "", "b", "a"} {
		o = mustUpdate(t, a, o, record(holder))
		early.reach(o)
		late.reach(o)
	}
	for range 3 {
		f.Delete(t)
		if rev := early.gone(); rev <= o.Revision {
			t.Fatalf("deletion of revision %d has revision %d", o.Revision, rev)
		}
		late.gone()
		o = mustCreate(t, a, record("a"))
		early.reach(o)
		late.reach(o)
	}
}

// Whatever is written after Watch has returned must arrive, however soon.
func (s suite) watchHasNoGap() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	o := mustCreate(t, a, record("a"))
	for range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		ch, err := b.Watch(ctx)
		if err != nil {
			cancel()
			t.Fatalf("watch: %v", err)
		}
		w := &observer{t: t, ch: ch}
		o = mustUpdate(t, a, o, record("a"))
		w.reach(o)
		cancel()
		w.closed()
	}
}

func (s suite) watchEndsWithItsContext() {
	t, f := s.t, s.f
	l := f.Open(t)
	mustCreate(t, l, record("a"))
	for _, read := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		ch, err := l.Watch(ctx)
		if err != nil {
			cancel()
			t.Fatalf("watch: %v", err)
		}
		w := &observer{t: t, ch: ch}
		if read { // otherwise end it while something waits to be read
			w.reach(mustUpdate(t, l, mustRead(t, l), record("a")))
		}
		cancel()
		w.closed()
	}
}

// A reader that comes late blocks nobody, and either gets the newest state at
// last or learns by the watch's end that it did not.
func (s suite) watchForASlowReader() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	slow, quick := watchLock(t, b), watchLock(t, b)
	o := mustCreate(t, a, record("a"))
	for range 200 {
		quick.reach(o)
		o = mustUpdate(t, a, o, record("a"))
	}
	quick.reach(o)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for slow.last < o.Revision {
		select {
		case late, open := <-slow.ch:
			if !open {
				return
			}
			slow.advance(late)
		case <-timeout.C:
			t.Fatalf("the watch brought nothing more after revision %d of %d", slow.last, o.Revision)
		}
	}
}

func (s suite) watchBreaks() {
	t, f := s.t, s.f
	if f.Disturb == nil {
		t.Log("the store breaks no watches")
		return
	}
	a, b := f.Open(t), f.Open(t)
	o := mustCreate(t, a, record("a"))
	w := watchLock(t, b)
	f.Disturb(t)
	w.closed()

	// The lock is there again, at once or after a while, for everybody.
	eventually(t, func(ctx context.Context) error {
		read, err := a.Read(ctx)
		if err == nil && !same(read, o) {
			t.Fatalf("before the break %+v\nafter it %+v", o, read)
		}
		return err
	})
	eventually(t, func(ctx context.Context) error {
		_, err := b.Read(ctx)
		return err
	})
	again := watchLock(t, b)
	again.reach(mustUpdate(t, a, o, record("a")))
}

// eventually repeats a request, with a second for each try, until it succeeds.
func eventually(t *testing.T, request func(context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := request(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the store came back: %v", err)
		}
	}
}

// requests are all methods, as calls that tell only whether they failed.
func requests(l election.Lock, base election.Observation) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"read":   func(ctx context.Context) error { _, err := l.Read(ctx); return err },
		"create": func(ctx context.Context) error { _, err := l.Create(ctx, record("late")); return err },
		"update": func(ctx context.Context) error { _, err := l.Update(ctx, base, record("late")); return err },
		"watch":  func(ctx context.Context) error { _, err := l.Watch(ctx); return err },
	}
}

func (s suite) endedContext() {
	t, f := s.t, s.f
	l := f.Open(t)
	o := mustCreate(t, l, record("a"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, request := range requests(l, o) {
		err := request(ended)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: %v", name, err)
		}
	}
	if read := mustRead(t, l); !same(read, o) {
		t.Fatalf("requests that were not to be made left %+v, want %+v", read, o)
	}
}

func (s suite) hangingStore() {
	t, f := s.t, s.f
	if f.Hang == nil {
		t.Log("the store does not hang")
		return
	}
	l := f.Open(t)
	o := mustCreate(t, l, record("a"))
	resume := f.Hang(t)
	for name, request := range requests(l, o) {
		const limit, slack = 300 * time.Millisecond, 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		start := time.Now()
		err := request(ctx)
		took := time.Since(start)
		cancel()
		switch {
		case err == nil:
			t.Errorf("%s succeeded on a store that hangs", name)
		case errors.Is(err, election.ErrConflict), errors.Is(err, election.ErrRefused):
			t.Errorf("%s claims to know what became of it: %v", name, err)
		}
		if took > limit+slack {
			t.Errorf("%s took %s with a limit of %s", name, took, limit)
		}
	}
	resume()
	// What was sent before may still be made, so only the lock's health is
	// checked here.
	eventually(t, func(ctx context.Context) error {
		_, err := l.Read(ctx)
		return err
	})
}
