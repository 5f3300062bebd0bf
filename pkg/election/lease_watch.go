package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	// A watch is answered at once or never. The caller's context is that of
	// the watch's whole life, so it cannot bound the wait.
	watchEstablishTimeout = 10 * time.Second
	// The server ends a watch after this time, and half as much again at
	// random: no watch that has gone silently wrong lives for ever, and the
	// candidates of a fleet do not come back all at once.
	watchLifetime = 10 * time.Minute
	// So many changes wait for a reader that is slow. Then its watch ends: a
	// state that it would not be told of may be the one that matters.
	watchBacklog = 64
)

var errWatchSilent = errors.New("the API server did not answer the watch")

// Watch watches the one Lease. Without a resourceVersion the watch begins with
// the Lease as the server's cache knows it, which may be older than what Read
// returned before, and misses nothing after that.
func (l *leaseLock) Watch(ctx context.Context) (<-chan Observation, error) {
	if l.shared != nil {
		out, err := l.shared.subscribe(ctx, l.name)
		return out, l.watchFailed(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w, err := openLeaseWatch(ctx, cancel, l.client.Leases(l.namespace), fields.OneTermEqualSelector(metav1.ObjectNameField, l.name).String())
	if err != nil {
		return nil, l.watchFailed(err)
	}
	out := make(chan Observation)
	go func() {
		defer close(out)
		defer cancel(nil)
		defer w.Stop()
		l.relay(ctx, w.ResultChan(), out)
	}()
	return out, nil
}

func (l *leaseLock) watchFailed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errWatchSilent):
		return l.error("watch", fmt.Sprintf("%v within %s", errWatchSilent, watchEstablishTimeout), errWatchSilent)
	default:
		return l.fail("watch", err, 1)
	}
}

// openLeaseWatch opens a watch that lives until it breaks or is cancelled. The
// context must be the one that cancel ends.
func openLeaseWatch(ctx context.Context, cancel context.CancelCauseFunc, leases coordinationv1client.LeaseInterface, selector string) (watch.Interface, error) {
	silence := time.AfterFunc(watchEstablishTimeout, func() { cancel(errWatchSilent) })
	lifetime := watchLifetime + rand.N(watchLifetime/2) // #nosec G404 -- no secret
	w, err := leases.Watch(ctx, metav1.ListOptions{FieldSelector: selector, TimeoutSeconds: new(int64(lifetime / time.Second))})
	if err == nil && !silence.Stop() {
		w.Stop()
		err = context.Canceled
	}
	if err != nil {
		silence.Stop()
		cause := context.Cause(ctx)
		cancel(nil)
		if errors.Is(cause, errWatchSilent) {
			return nil, errWatchSilent
		}
		return nil, err
	}
	return w, nil
}

// relay passes on what the watch brings until it breaks, or until the reader is
// too far behind: the server must never have to wait and give up.
func (l *leaseLock) relay(ctx context.Context, in <-chan watch.Event, out chan<- Observation) {
	var pending []Observation
	for in != nil || len(pending) > 0 {
		var offer chan<- Observation // nil, which blocks, while there is nothing to offer
		var oldest Observation
		if len(pending) > 0 {
			offer, oldest = out, pending[0]
		}
		select {
		case e, open := <-in:
			o, ok := l.observe(e)
			if !open || !ok {
				in = nil
				continue
			}
			if o == nil {
				continue
			}
			if len(pending) == watchBacklog {
				return
			}
			pending = append(pending, *o)
		case offer <- oldest:
			pending = pending[1:]
		case <-ctx.Done():
			return
		}
	}
}

// observe is observeEvent for this lock's Lease: a fake clientset does not
// select.
func (l *leaseLock) observe(e watch.Event) (*Observation, bool) {
	if lease, ok := e.Object.(*coordinationv1.Lease); ok && lease.Name != l.name {
		return nil, true
	}
	return observeEvent(e)
}

// observeEvent returns nil for an event that tells nothing, and false for one
// that ends the watch.
func observeEvent(e watch.Event) (*Observation, bool) {
	switch e.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Bookmark:
		return nil, true
	default: // an error, or something from the future
		return nil, false
	}
	lease, ok := e.Object.(*coordinationv1.Lease)
	if !ok {
		return nil, false
	}
	o := observe(lease)
	if e.Type == watch.Deleted {
		o = Observation{UID: o.UID, Revision: o.Revision}
	}
	return &o, true
}
