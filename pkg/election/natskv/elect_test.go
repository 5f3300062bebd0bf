package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// reigns knows who leads, and finds two at once.
type reigns struct {
	t *testing.T

	mu    sync.Mutex
	now   string
	terms int
}

func (r *reigns) begin(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != "" {
		r.t.Errorf("%s begins while %s leads", id, r.now)
	}
	r.now = id
	r.terms++
}

func (r *reigns) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == id {
		r.now = ""
	}
}

func (r *reigns) leader() (id string, terms int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now, r.terms
}

// stand runs a candidate until the test ends.
func stand(t *testing.T, conn *nats.Conn, id string, r *reigns) *election.Elector {
	t.Helper()
	e, err := election.New(open(t, conn, prodLock), election.Options{
		Identity: id, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Lead: func(ctx context.Context, _ *election.Term) error {
			r.begin(id)
			defer r.end(id)
			<-ctx.Done()
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Run(ctx); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return e
}

// settled waits until one leads and the record has been renewed in its name.
func settled(t *testing.T, l election.Lock, r *reigns) string {
	t.Helper()
	var first election.Observation
	var leader string
	testenv.Eventually(t, 2*patience, func() error {
		ctx, cancel := withTimeout(t, time.Second)
		defer cancel()
		o, err := l.Read(ctx)
		if err != nil {
			return err
		}
		id, _ := r.leader()
		if id == "" || o.Record.Holder != id || first.Record.Holder != id {
			first = o
			return fmt.Errorf("%q leads, the record says %q", id, o.Record.Holder)
		}
		leader = id
		if o.Revision == first.Revision {
			return fmt.Errorf("%s does not renew", id)
		}
		return nil
	})
	return leader
}

// Three candidates go on electing whatever happens to the bucket and its
// servers, and never two lead at once.
func TestElectionThroughFaults(t *testing.T) {
	c := natsenv.StartCluster(t)
	r := &reigns{t: t}
	electors := map[string]*election.Elector{}
	for i := range natsenv.Size {
		id := fmt.Sprintf("candidate-%d", i)
		electors[id] = stand(t, c.Connect(t), id, r)
	}
	js := c.JetStream(t)
	probe := open(t, c.Connect(t), prodLock)
	operator := tools{js, "leaderbridge_locks", "prod.lock"}
	stepDown := func() {
		leader := settled(t, probe, r)
		ctx, cancel := withTimeout(t, patience)
		defer cancel()
		if err := electors[leader].StepDown(ctx, ""); err != nil && !errors.Is(err, election.ErrNotLeading) {
			t.Errorf("step down: %v", err)
		}
	}
	for _, fault := range []struct {
		name string
		make func()
	}{
		{"step-down", stepDown},
		{"key deleted", func() { operator.delete(t) }},
		{"foreign holder", func() { operator.overwrite(t, "stranger") }},
		{"bucket deleted", func() {
			if err := js.DeleteStream(t.Context(), bucketStream); err != nil {
				t.Fatal(err)
			}
		}},
		{"bucket's leader stopped", func() {
			i := c.StreamLeader(t, bucketStream)
			c.Stop(i)
			stepDown()
			settled(t, probe, r)
			c.Restart(t, i)
		}},
		{"majority lost for longer than the deadline", func() {
			i := c.StreamLeader(t, bucketStream)
			c.Stop(i)
			c.Stop((i + 1) % natsenv.Size)
			testenv.Eventually(t, patience, func() error {
				if id, _ := r.leader(); id != "" {
					return fmt.Errorf("%s still leads without a majority", id)
				}
				return nil
			})
			c.Restart(t, i)
			c.Restart(t, (i+1)%natsenv.Size)
		}},
		{"rolling restart", func() {
			for i := range natsenv.Size {
				c.Restart(t, i)
			}
		}},
	} {
		settled(t, probe, r)
		start := time.Now()
		fault.make()
		leader := settled(t, probe, r)
		_, terms := r.leader()
		t.Logf("%s: %s leads after %s, %d terms so far", fault.name, leader, time.Since(start).Round(time.Millisecond), terms)
	}
}

// Plain client-go electors stand beside ours.
func TestElectionWithClientGo(t *testing.T) {
	s := natsenv.Start(t)
	r := &reigns{t: t}
	ours := stand(t, s.Connect(t), "ours", r)
	probe := open(t, s.Connect(t), prodLock)

	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	lock := election.ResourceLock(open(t, s.Connect(t), prodLock), "client-go")
	giveUp := make(chan struct{})
	wait.Go(func() {
		for ctx.Err() == nil {
			term, end := context.WithCancel(ctx)
			leaderelection.RunOrDie(term, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) {
						r.begin("client-go")
						select {
						case <-giveUp:
						case <-ctx.Done():
						}
						r.end("client-go")
						end()
					},
					OnStoppedLeading: func() {},
				},
			})
			end()
			// It would take back at once what it has given up, before the
			// other had heard of it.
			for id := ""; id != "ours" && ctx.Err() == nil; id, _ = r.leader() {
				time.Sleep(10 * time.Millisecond) // time itself is the subject
			}
		}
	})
	for range 3 {
		for _, want := range []string{"ours", "client-go"} {
			testenv.Eventually(t, patience, func() error {
				leader := settled(t, probe, r)
				if leader == want {
					return nil
				}
				if leader == "ours" {
					_ = ours.StepDown(t.Context(), "client-go")
				} else {
					giveUp <- struct{}{}
				}
				return fmt.Errorf("%s leads, want %s", leader, want)
			})
		}
	}
}
