package watcher

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/internal/observed"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// DefaultFlushTimeout bounds how long a clean stop waits for the log.
const DefaultFlushTimeout = 2 * time.Second

// readers is how many Leases are read at once, and how many elections' tails:
// when it begins, when all of them may have changed.
const readers = 48

// Config says what a Watcher does.
type Config struct {
	Selection Selection
	// Cluster is the cluster's name in events and subjects.
	Cluster string
	// Identity names this process in events.
	Identity string
	// Delay is how long a change is left to others to report, on average. Zero
	// is no wait.
	Delay time.Duration
	// FlushTimeout is how long a clean stop waits for the log, at most, to
	// take what it still lacks. Zero means DefaultFlushTimeout.
	FlushTimeout time.Duration
	// Metrics may be nil.
	Metrics *instruments.Metrics
	Logger  *slog.Logger
}

// Watcher follows Leases and records their transitions. Create it with New and
// call Run once.
type Watcher struct {
	cfg      Config
	client   coordinationclient.LeasesGetter
	book     *logbook.Book
	recorder *events.Recorder
	metrics  *instruments.Election

	mu     sync.Mutex
	leases map[key]*lease
	due    dueHeap
	alarm  *boottime.Timer
	feeds  map[scope]error // why a scope is not watched now; nil when it is
	logErr error
}

type key struct{ namespace, name string }

// lease is one watched Lease.
type lease struct {
	key     key
	uid     string
	watcher *election.Watcher
	skip    bool // not wanted, or not nameable
	due     boottime.Instant
	index   int // in the heap; -1 when not there
}

// New returns a watcher that reads with the client and writes to the book.
func New(client coordinationclient.LeasesGetter, book *logbook.Book, cfg Config) (*Watcher, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.FlushTimeout == 0 {
		cfg.FlushTimeout = DefaultFlushTimeout
	}
	w := &Watcher{
		cfg: cfg, client: client, book: book,
		metrics: cfg.Metrics.Watching(),
		leases:  map[key]*lease{},
		feeds:   map[scope]error{},
		logErr:  errors.New("the log has not been reached yet"),
	}
	for _, s := range cfg.Selection.scopes() {
		w.feeds[s] = errors.New("no list of Leases has arrived yet")
	}
	var err error
	w.recorder, err = events.NewRecorder(book, events.RecorderOptions{
		Reporter: events.Reporter{Identity: cfg.Identity, Perspective: events.ByWatcher},
		Delay:    cmp.Or(cfg.Delay, -1), // the recorder's zero is its default
		Workers:  readers,
		Read:     w.read,
		Logger:   cfg.Logger,
		Hooks: events.Hooks{
			Appended: w.appended,
			Failed:   w.failed,
			Dropped:  w.dropped,
		},
	})
	return w, err
}

// Run watches until ctx ends. What was observed by then and is not in the log
// yet gets until the flush timeout.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.metrics.Close()
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.recorder.Run(recording) })
	wg.Go(func() {
		_ = w.book.Follow(recording, events.Election{Cluster: w.cfg.Cluster}, w.recorder, nil, w.followed)
	})
	w.mu.Lock()
	w.alarm = boottime.AfterFunc(boottime.Now().Add(time.Hour), w.ring)
	w.mu.Unlock()
	var feeds sync.WaitGroup
	for _, s := range w.cfg.Selection.scopes() {
		feeds.Go(func() { w.feed(ctx, s) })
	}
	feeds.Wait()
	w.mu.Lock()
	w.alarm.Stop()
	w.mu.Unlock()
	w.flush(ctx)
	stop()
	wg.Wait()
	return nil
}

// flush brings into the log what it still lacks.
func (w *Watcher) flush(ctx context.Context) {
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.FlushTimeout)
	defer cancel()
	if err := w.recorder.FlushAll(flush); err != nil {
		w.cfg.Logger.Warn("not all that was observed is in the log; who watches next will tell that something is missing", "error", err)
	}
}

func (w *Watcher) election(k key) events.Election {
	return events.Election{Cluster: w.cfg.Cluster, Namespace: k.namespace, Lease: k.name}
}

// find returns the lease's entry, making it if need be. mu is held.
func (w *Watcher) findLocked(k key) *lease {
	l := w.leases[k]
	if l == nil {
		l = &lease{key: k, watcher: election.NewWatcher(), index: -1}
		l.skip = !w.cfg.Selection.wants(k.namespace, k.name) || w.election(k).Validate() != nil
		w.leases[k] = l
	}
	return l
}

// seen takes in a Lease from the watch.
func (w *Watcher) seen(obj *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.findLocked(key{obj.Namespace, obj.Name})
	if l.skip {
		return
	}
	l.uid = string(obj.UID)
	w.reportLocked(l, l.watcher.Seen(election.ObserveLease(obj)))
}

// gone takes in a deletion from the watch.
func (w *Watcher) gone(obj *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.findLocked(key{obj.Namespace, obj.Name})
	if l.skip {
		return
	}
	o := election.ObserveLease(obj)
	w.reportLocked(l, l.watcher.Seen(election.Observation{Revision: o.Revision}))
}

// listed takes in all Leases of a scope, from a list requested at the moment
// sent. What is not in it is gone.
func (w *Watcher) listed(s scope, all []*coordinationv1.Lease, sent boottime.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	present := make(map[key]bool, len(all))
	for _, obj := range all {
		k := key{obj.Namespace, obj.Name}
		present[k] = true
		if l := w.findLocked(k); !l.skip {
			l.uid = string(obj.UID)
			w.reportLocked(l, l.watcher.Listed(election.ObserveLease(obj), sent))
		}
	}
	for k, l := range w.leases {
		if present[k] || l.skip || s.namespace != "" && k.namespace != s.namespace || s.name != "" && k.name != s.name {
			continue
		}
		w.reportLocked(l, l.watcher.Listed(election.Observation{}, sent))
	}
}

// reportLocked passes on what is news and sets the lease's next moment. States
// of one Lease must reach the recorder in order, so mu is held; the recorder
// does not wait.
func (w *Watcher) reportLocked(l *lease, states []election.State) {
	for _, s := range states {
		o := observed.Of(s)
		if o.UID == "" {
			o.UID = l.uid
		}
		w.recorder.Observe(w.election(l.key), o)
	}

	at, ok := l.watcher.Wake()
	switch {
	case !ok && l.index >= 0:
		heap.Remove(&w.due, l.index)
	case ok && l.index < 0:
		l.due = at
		heap.Push(&w.due, l)
		if l.index == 0 && w.alarm != nil {
			w.alarm.Reset(at)
		}
	}
	// An entry that is there already and comes too early finds out when it is
	// due: that is what keeps renewals cheap.
}

// ring handles every lease that is due.
func (w *Watcher) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := boottime.Now()
	for len(w.due) > 0 && w.due[0].due <= now {
		l := w.due[0]
		at, ok := l.watcher.Wake()
		if ok && at > now {
			l.due = at
			heap.Fix(&w.due, 0)
			continue
		}
		heap.Remove(&w.due, 0)
		w.reportLocked(l, l.watcher.Tick())
	}
	next := now.Add(time.Hour)
	if len(w.due) > 0 {
		next = max(w.due[0].due, now.Add(leastNap))
	}
	w.alarm.Reset(next)
}

// leastNap is the least time between two looks at what is due. Thousands of
// Leases would otherwise wake the watcher for each one's own moment, mostly to
// find that it was renewed long ago.
const leastNap = 10 * time.Millisecond

// read is the recorder's look at a Lease itself.
func (w *Watcher) read(ctx context.Context, e events.Election) (events.Observed, error) {
	obj, err := w.client.Leases(e.Namespace).Get(ctx, e.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return observed.Present(election.Observation{}), nil
	}
	if err != nil {
		return events.Observed{}, fmt.Errorf("read lease %s: %w", e, err)
	}
	return observed.Present(election.ObserveLease(obj)), nil
}

func (w *Watcher) appended(_ events.Election, stored []events.Event, _ uint64, took time.Duration) {
	ctx := context.Background()
	w.metrics.Appended(ctx, took, nil)
	for _, e := range stored {
		w.metrics.Transition(ctx, e)
		w.cfg.Logger.Info("published", "election", e.Election.String(), "transition", string(e.Transition), "epoch", e.Epoch, "about", e.Who(), "reason", string(e.Reason))
	}
	w.metrics.SetQueued(w.recorder.Stats().Queued)
}

func (w *Watcher) failed(_ events.Election, err error) {
	w.metrics.Appended(context.Background(), 0, err)
	w.cfg.Metrics.Failed(context.Background(), instruments.PartLog)
	w.metrics.SetQueued(w.recorder.Stats().Queued)
}

func (w *Watcher) dropped(events.Election, events.Observed, error) {
	w.metrics.Dropped(context.Background())
}

func (w *Watcher) followed(err error) {
	w.mu.Lock()
	before := w.logErr
	w.logErr = err
	w.mu.Unlock()
	w.cfg.Metrics.LogReachable(err == nil)
	switch {
	case err == nil && before != nil:
		w.cfg.Logger.Info("following the log")
	case err != nil && (before == nil || before.Error() != err.Error()):
		w.cfg.Logger.Warn("the log cannot be followed", "error", err)
	}
}

// dueHeap orders leases by when they are due.
type dueHeap []*lease

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	l := x.(*lease)
	l.index = len(*h)
	*h = append(*h, l)
}

func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.index = -1
	return l
}
