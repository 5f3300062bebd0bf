package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

// The durations of every candidate in the test.
const (
	interopLease    = 3 * time.Second
	interopDeadline = 2 * time.Second
	interopRetry    = 500 * time.Millisecond
)

// reigns records who believes in a valid term, and finds two at once.
type reigns struct {
	t     *testing.T
	mu    sync.Mutex
	now   string
	count int
	kinds map[string]int
}

func (r *reigns) begin(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != "" {
		r.t.Errorf("%s begins while %s leads", who, r.now)
	}
	r.now = who
	r.count++
}

func (r *reigns) end(who, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == who {
		r.now = ""
		r.kinds[how]++
	}
}

func (r *reigns) leader() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *reigns) terms() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// contender is a candidate of either make. dethrone ends its reign cleanly or
// by a crash, after which it stands again.
type contender interface {
	dethrone(crash bool)
	stop()
}

// TestInterop has our candidates and plain client-go candidates in the same
// elections: hundreds of hand-overs of all kinds, and no two valid terms at
// once. LEADERBRIDGE_HANDOVERS sets their number.
func TestInterop(t *testing.T) {
	wanted := 320
	if n, err := strconv.Atoi(os.Getenv("LEADERBRIDGE_HANDOVERS")); err == nil {
		wanted = n
	}
	const elections = 16
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	client, err := election.NewLeaseClient(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	var total atomic.Int32
	kinds := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range elections {
		wg.Go(func() {
			r := contest(t, client, namespace, fmt.Sprintf("contest-%d", i), wanted/elections, uint64(i))
			total.Add(int32(r.terms()))
			mu.Lock()
			defer mu.Unlock()
			for k, n := range r.kinds {
				kinds[k] += n
			}
		})
	}
	wg.Wait()
	t.Logf("%d terms: %v", total.Load(), kinds)
	for _, k := range []string{"ours clean", "ours crash", "client-go clean", "client-go crash"} {
		if kinds[k] == 0 {
			t.Errorf("no hand-over of the kind %q: the test proves less than it says", k)
		}
	}
}

// contest runs one election until it has seen the wanted number of terms.
func contest(t *testing.T, client coordinationv1.CoordinationV1Interface, namespace, name string, wanted int, seed uint64) *reigns {
	r := &reigns{t: t, kinds: map[string]int{}}
	rng := rand.New(rand.NewPCG(seed, 7))
	contenders := map[string]contender{}
	for i := range 2 {
		id := fmt.Sprintf("ours-%d", i)
		contenders[id] = startOurs(t, client, namespace, name, id, r)
		id = fmt.Sprintf("client-go-%d", i)
		contenders[id] = startClientGo(t, client, namespace, name, id, r)
	}
	for r.terms() < wanted && !t.Failed() {
		before := r.terms()
		testenv.Eventually(t, 20*time.Second, func() error {
			if who := r.leader(); who != "" {
				contenders[who].dethrone(rng.IntN(8) == 0)
				return nil
			}
			return fmt.Errorf("%s: nobody leads after %d terms", name, before)
		})
		testenv.Eventually(t, 20*time.Second, func() error {
			if r.terms() > before {
				return nil
			}
			return fmt.Errorf("%s: no new leader after %d terms", name, before)
		})
	}
	for _, c := range contenders {
		c.stop()
	}
	return r
}

// ours is a candidate of this module. A crash cuts it off from the API server.
type ours struct {
	e      *election.Elector
	cut    *cutLock
	cancel context.CancelFunc
	done   chan struct{}
}

func startOurs(t *testing.T, client coordinationv1.LeasesGetter, namespace, name, id string, r *reigns) *ours {
	lock, err := election.NewLeaseLock(client, namespace, name)
	if err != nil {
		t.Error(err)
		return nil
	}
	c := &ours{cut: &cutLock{Lock: lock}, done: make(chan struct{})}
	c.e, err = election.New(c.cut, election.Options{
		Identity: id, LeaseDuration: interopLease, RenewDeadline: interopDeadline, RetryPeriod: interopRetry,
		Lead: func(ctx context.Context, term *election.Term) error {
			r.begin(id)
			<-ctx.Done()
			how := "ours clean"
			if c.cut.is.Load() {
				how = "ours crash"
				c.cut.is.Store(false)
			}
			r.end(id, how)
			return nil
		},
	})
	if err != nil {
		t.Error(err)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer close(c.done)
		if err := c.e.Run(ctx); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}()
	return c
}

func (c *ours) dethrone(crash bool) {
	if crash {
		c.cut.is.Store(true)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = c.e.StepDown(ctx, "") // the term may have ended by itself meanwhile
}

func (c *ours) stop() {
	c.cancel()
	<-c.done
}

// cutLock loses every write while it is cut off.
type cutLock struct {
	election.Lock
	is atomic.Bool
}

func (l *cutLock) Update(ctx context.Context, base election.Observation, r election.Record) (election.Observation, error) {
	if l.is.Load() {
		<-ctx.Done()
		return election.Observation{}, ctx.Err()
	}
	return l.Lock.Update(ctx, base, r)
}

// clientGo is a plain client-go candidate, started anew after each term.
type clientGo struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	crash  atomic.Bool
	id     string
	r      *reigns
	quit   context.CancelFunc
	done   chan struct{}
}

func startClientGo(t *testing.T, client coordinationv1.LeasesGetter, namespace, name, id string, r *reigns) *clientGo {
	quit, cancel := context.WithCancel(context.Background())
	c := &clientGo{id: id, r: r, quit: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for quit.Err() == nil {
			c.term(quit, t, client, namespace, name)
		}
	}()
	return c
}

func (c *clientGo) term(quit context.Context, t *testing.T, client coordinationv1.LeasesGetter, namespace, name string) {
	ctx, cancel := context.WithCancel(quit)
	defer cancel()
	c.mu.Lock()
	c.cancel = cancel
	c.mu.Unlock()
	c.crash.Store(false)
	started := make(chan struct{})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.id},
	}
	le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &mortalLock{Interface: lock, dead: &c.crash}, LeaseDuration: interopLease, RenewDeadline: interopDeadline, RetryPeriod: interopRetry,
		ReleaseOnCancel: true, Name: name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { c.r.begin(c.id); close(started) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Error(err)
		return
	}
	le.Run(ctx)
	// A term that was never told of is none; one that began was ended by
	// dethrone, or by client-go itself.
	if le.GetLeader() != "" {
		select {
		case <-started:
			c.r.end(c.id, "client-go lost")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// mortalLock is the connection of a client-go candidate that can die: nothing
// is written any more, the release on its way out least of all.
type mortalLock struct {
	resourcelock.Interface
	dead *atomic.Bool
}

func (l *mortalLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.dead.Load() {
		return fmt.Errorf("dead")
	}
	return l.Interface.Update(ctx, r)
}

// dethrone ends the reign: the record of it is closed first, since client-go
// cancels its own context before it releases the Lease.
func (c *clientGo) dethrone(crash bool) {
	how := "client-go clean"
	if crash {
		how = "client-go crash"
		c.crash.Store(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.r.end(c.id, how)
	c.cancel()
}

func (c *clientGo) stop() {
	c.quit()
	<-c.done
}
