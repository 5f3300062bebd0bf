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
)

const (
	// A watch is answered at once or never. The caller's context is that of
	// the watch's whole life, so it cannot bound the wait.
	watchEstablishTimeout = 10 * time.Second
	// The server ends a watch after this time, and half as much again at
	// random: no watch that has gone silently wrong lives for ever, and the
	// candidates of a fleet do not come back all at once.
	watchLifetime = 10 * time.Minute
	// So many changes wait for a reader that is slow; then the oldest are
	// dropped.
	watchBacklog = 64
)

var errWatchSilent = errors.New("the API server did not answer the watch")

// Watch watches the one Lease. Without a resourceVersion the watch begins with
// the Lease as the server's cache knows it, which may be older than what Read
// returned before, and misses nothing after that.
func (l *leaseLock) Watch(ctx context.Context) (<-chan Observation, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(watchEstablishTimeout, func() { cancel(errWatchSilent) })
	lifetime := watchLifetime + rand.N(watchLifetime/2) // #nosec G404 -- no secret
	w, err := l.client.Leases(l.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:  fields.OneTermEqualSelector(metav1.ObjectNameField, l.name).String(),
		TimeoutSeconds: new(int64(lifetime / time.Second)),
	})
	if err == nil && !silence.Stop() {
		w.Stop()
		err = context.Canceled
	}
	if err != nil {
		silence.Stop()
		cause := context.Cause(ctx)
		cancel(nil)
		if errors.Is(cause, errWatchSilent) {
			return nil, l.error("watch", fmt.Sprintf("%v within %s", errWatchSilent, watchEstablishTimeout), errWatchSilent)
		}
		return nil, l.fail("watch", err, 1)
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

// relay passes on what the watch brings until it breaks. For a reader that is
// slow it keeps the newest few changes, so that the server never has to wait
// and give up.
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
			o, ok := l.observeEvent(e)
			if !open || !ok {
				in = nil
				continue
			}
			if o != nil {
				pending = append(pending, *o)
				pending = pending[max(0, len(pending)-watchBacklog):]
			}
		case offer <- oldest:
			pending = pending[1:]
		case <-ctx.Done():
			return
		}
	}
}

// observeEvent returns nil for an event that tells nothing, and false for one
// that ends the watch.
func (l *leaseLock) observeEvent(e watch.Event) (*Observation, bool) {
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
	if lease.Name != l.name {
		return nil, true // a fake clientset does not select
	}
	o := observe(lease)
	if e.Type == watch.Deleted {
		o = Observation{UID: o.UID, Revision: o.Revision}
	}
	return &o, true
}
