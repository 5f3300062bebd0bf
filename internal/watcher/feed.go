package watcher

import (
	"context"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// feed lists and watches one scope until ctx ends. client-go's Reflector does
// the relisting and the pauses; what it delivers goes straight to the watchers,
// so no copy of the Leases is kept.
func (w *Watcher) feed(ctx context.Context, s scope) {
	st := &store{w: w, scope: s}
	selector := func(o *metav1.ListOptions) {
		o.LabelSelector = w.cfg.Selection.Selector
		if s.name != "" {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.name).String()
		}
	}
	leases := w.client.Leases(s.namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			selector(&o)
			st.sent.Store(int64(boottime.Now()))
			list, err := leases.List(ctx, o)
			w.fed(s, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			selector(&o)
			st.sent.Store(int64(boottime.Now()))
			wi, err := leases.Watch(ctx, o)
			if err != nil {
				w.fed(s, err)
			}
			return wi, err
		},
	}
	cache.NewReflectorWithOptions(lw, &coordinationv1.Lease{}, st, cache.ReflectorOptions{Name: "leases"}).RunWithContext(ctx)
}

// fed notes whether a scope is watched now, and says so once for each change.
func (w *Watcher) fed(s scope, err error) {
	w.mu.Lock()
	before := w.feeds[s]
	w.feeds[s] = err
	w.mu.Unlock()
	switch {
	case err == nil && before != nil:
		w.cfg.Logger.Info("watching Leases", "namespace", s.namespace, "name", s.name)
	case err != nil && (before == nil || before.Error() != err.Error()):
		w.cfg.Logger.Warn("Leases cannot be watched", "namespace", s.namespace, "name", s.name, "error", err)
	}
}

// store is where a Reflector puts what it sees.
type store struct {
	w     *Watcher
	scope scope
	sent  atomic.Int64 // when the last request was sent
}

func (s *store) Add(obj any) error {
	s.w.seen(obj.(*coordinationv1.Lease))
	return nil
}

func (s *store) Update(obj any) error { return s.Add(obj) }

func (s *store) Delete(obj any) error {
	s.w.gone(obj.(*coordinationv1.Lease))
	return nil
}

func (s *store) Replace(objs []any, _ string) error {
	all := make([]*coordinationv1.Lease, len(objs))
	for i, o := range objs {
		all[i] = o.(*coordinationv1.Lease)
	}
	s.w.listed(s.scope, all, boottime.Instant(s.sent.Load()))
	s.w.fed(s.scope, nil)
	return nil
}

func (s *store) Resync() error { return nil }
