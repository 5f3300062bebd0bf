package election

import (
	"context"
	"errors"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// LeaseWatch is one watch for all Leases of a namespace. Give it to the locks of
// a process that stands in many elections there (WithLeaseWatch): each would
// otherwise have a watch of its own, which costs three goroutines and some forty
// kilobytes here, and a stream at the API server.
//
// It needs the verb watch on all leases of the namespace, and receives the
// changes of all of them. It begins when a lock asks for it and ends with the
// last one that does. When it breaks, it breaks for all of them, and each reads
// its Lease. Its methods are safe for concurrent use.
type LeaseWatch struct {
	client    coordinationv1client.LeasesGetter
	namespace string

	mu      sync.Mutex
	current *leaseStream // nil when nobody watches
}

// NewLeaseWatch makes no request.
func NewLeaseWatch(client coordinationv1client.LeasesGetter, namespace string) *LeaseWatch {
	return &LeaseWatch{client: client, namespace: namespace}
}

// WithLeaseWatch lets a lock share a watch. A lock of another namespace than the
// watch's keeps its own.
func WithLeaseWatch(w *LeaseWatch) LeaseOption {
	return func(l *leaseLock) {
		if w.namespace == l.namespace {
			l.shared = w
		}
	}
}

var errWatchBroke = errors.New("the shared watch broke before it could be used")

// leaseStream is one life of the watch. What is guarded is so by the
// LeaseWatch's mu.
type leaseStream struct {
	cancel context.CancelCauseFunc
	opened chan struct{} // closed when the watch stands, or err says why not
	err    error

	users   int // guarded: those who wait for it to open, and the readers
	readers map[string][]*leaseReader
	closed  bool // guarded
}

// leaseReader is one lock's part.
type leaseReader struct {
	name string
	out  chan Observation
	// forget ends the wait for the end of the reader's context.
	forget func() bool
}

// subscribe returns once it is certain to see every change of the Lease.
func (w *LeaseWatch) subscribe(ctx context.Context, name string) (<-chan Observation, error) {
	s := w.join()
	select {
	case <-s.opened:
	case <-ctx.Done():
		w.leave(s, nil)
		return nil, context.Cause(ctx)
	}
	if s.err != nil {
		w.leave(s, nil)
		return nil, s.err
	}
	r := &leaseReader{name: name, out: make(chan Observation, watchBacklog/4)}
	if !w.admit(ctx, s, r) {
		w.leave(s, nil)
		return nil, errWatchBroke
	}
	return r.out, nil
}

// admit makes a reader one of the stream's until its context ends, unless the
// stream is over.
func (w *LeaseWatch) admit(ctx context.Context, s *leaseStream, r *leaseReader) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.closed {
		return false
	}
	s.readers[r.name] = append(s.readers[r.name], r)
	r.forget = context.AfterFunc(ctx, func() { w.leave(s, r) })
	return true
}

// join returns the present stream, and opens one if there is none.
func (w *LeaseWatch) join() *leaseStream {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.current
	if s == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		s = &leaseStream{cancel: cancel, opened: make(chan struct{}), readers: map[string][]*leaseReader{}}
		w.current = s
		go w.run(ctx, s)
	}
	s.users++
	return s
}

// leave ends the part of a user, and the stream with the last one.
func (w *LeaseWatch) leave(s *leaseStream, r *leaseReader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(s, r)
}

// remove is leave for who holds mu. A reader that has been removed is let alone.
func (w *LeaseWatch) remove(s *leaseStream, r *leaseReader) {
	if r != nil && !s.closed {
		i := slices.Index(s.readers[r.name], r)
		if i < 0 {
			return
		}
		if s.readers[r.name] = slices.Delete(s.readers[r.name], i, i+1); len(s.readers[r.name]) == 0 {
			delete(s.readers, r.name)
		}
		close(r.out)
	}
	if s.users--; s.users == 0 {
		s.cancel(nil)
		if w.current == s {
			w.current = nil
		}
	}
}

// run opens the watch and hands out what it brings until it breaks.
func (w *LeaseWatch) run(ctx context.Context, s *leaseStream) {
	in, err := openLeaseWatch(ctx, s.cancel, w.client.Leases(w.namespace), "")
	s.err = err
	close(s.opened)
	if err == nil {
		for e := range in.ResultChan() {
			if !w.handOut(s, e) {
				break
			}
		}
		in.Stop()
	}
	s.cancel(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == s {
		w.current = nil
	}
	s.closed = true
	for _, readers := range s.readers {
		for _, r := range readers {
			r.forget()
			close(r.out)
		}
	}
}

// handOut returns false for an event that ends the watch. Nobody waits for a
// reader that is slow: its watch ends, so that it knows that it missed
// something, and reads.
func (w *LeaseWatch) handOut(s *leaseStream, e watch.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease, ok := e.Object.(*coordinationv1.Lease)
	if ok && len(s.readers[lease.Name]) == 0 {
		return true
	}
	o, ok := observeEvent(e)
	if o == nil || !ok {
		return ok
	}
	for _, r := range slices.Clone(s.readers[lease.Name]) {
		select {
		case r.out <- *o:
		default:
			r.forget()
			w.remove(s, r)
		}
	}
	return true
}
