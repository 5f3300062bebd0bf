package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

const (
	// fleetPeriod is the time between two renewals of a Lease.
	fleetPeriod = 10 * time.Second
	// fleetWriters is how many requests are under way at a time.
	fleetWriters = 48
)

// fleet is many Leases and the holders who renew them.
type fleet struct {
	s         *site
	namespace string
	duration  time.Duration // of each Lease
	clients   []coordinationclient.LeaseInterface
	members   []*member
	renewed   atomic.Int64

	ending  context.CancelFunc
	writing errgroup.Group
	next    atomic.Int64
	began   time.Time
	watched time.Time // since when ours has seen all of it

	mu      sync.Mutex
	changed []change
	failed  []change
}

func fleetName(i int) string { return fmt.Sprintf("node-%d", i) }

// member is one Lease. One writer at a time has it.
type member struct {
	mu     sync.Mutex
	lease  *coordinationv1.Lease
	takes  int
	failed time.Time // when it was renewed for the last time; zero while it is
}

// change is something that the log must tell.
type change struct {
	lease, holder string
	at            time.Time
}

func (s *site) fleet(namespace string, n int) *fleet {
	f := &fleet{s: s, namespace: namespace, duration: time.Duration(s.pick(15, 30)) * time.Second}
	for range 4 { // one connection carries a few hundred requests at a time
		client, err := election.NewLeaseClient(s.config())
		s.must(err)
		f.clients = append(f.clients, client.Leases(namespace))
	}
	for i := range n {
		name := fleetName(i)
		f.members = append(f.members, &member{lease: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(name), LeaseDurationSeconds: new(int32(f.duration / time.Second))},
		}})
	}
	return f
}

func (f *fleet) client(i int) coordinationclient.LeaseInterface { return f.clients[i%len(f.clients)] }

// each does something with some of the Leases, many at a time.
func (f *fleet) each(members []*member, do func(ctx context.Context, i int, m *member) error) {
	group, ctx := errgroup.WithContext(f.s.ctx)
	group.SetLimit(fleetWriters)
	for i, m := range members {
		group.Go(func() error { return do(ctx, i, m) })
	}
	f.s.must(group.Wait())
}

func (f *fleet) create() {
	f.each(f.members, func(ctx context.Context, i int, m *member) (err error) {
		m.lease.Spec.RenewTime = new(metav1.NowMicro())
		m.lease, err = f.client(i).Create(ctx, m.lease, metav1.CreateOptions{})
		return err
	})
}

// rate is how many renewals a second there should be.
func (f *fleet) rate() float64 { return float64(len(f.members)) / fleetPeriod.Seconds() }

// renew begins to renew all Leases in turn. What is not renewed in time, because
// the API server cannot keep up, is renewed as soon as it can.
func (f *fleet) renew() {
	ctx, stop := context.WithCancel(f.s.ctx)
	f.ending, f.began = stop, time.Now()
	gap := fleetPeriod / time.Duration(len(f.members))
	// One in a hundred in a minute fails, and one changes hands.
	every := int64(100 * time.Minute / fleetPeriod)
	for w := range fleetWriters {
		f.writing.Go(func() error {
			for {
				n := f.next.Add(1) - 1
				if !wait(ctx, time.Until(f.began.Add(time.Duration(n)*gap))) {
					return nil
				}
				m := f.members[n%int64(len(f.members))]
				// A write that is under way at the end is not cut short: it
				// could be made all the same, and the next one would conflict.
				var err error
				switch {
				case n%every == 0:
					err = f.fail(f.s.ctx, w, m)
				case n%every == every/2:
					err = f.take(f.s.ctx, w, m)
				default:
					err = f.put(f.s.ctx, w, m, false)
				}
				if err != nil {
					return err
				}
			}
		})
	}
	f.s.Cleanup(f.stop)
}

// wait reports whether it waited to the end.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// put renews a Lease, unless its holder has failed, or gives it to a new holder.
func (f *fleet) put(ctx context.Context, w int, m *member, take bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.failed.IsZero() && !take {
		if time.Since(m.failed) < f.duration+5*time.Second {
			return nil
		}
		take = true
	}
	lease := m.lease.DeepCopy()
	lease.Spec.RenewTime = new(metav1.NowMicro())
	if take {
		m.takes++
		lease.Spec.HolderIdentity = new(fmt.Sprintf("%s-%d", lease.Name, m.takes))
	}
	written, err := f.client(w).Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	m.lease, m.failed = written, time.Time{}
	f.renewed.Add(1)
	if take {
		f.mu.Lock()
		f.changed = append(f.changed, change{lease.Name, *lease.Spec.HolderIdentity, time.Now()})
		f.mu.Unlock()
	}
	return nil
}

// take gives a Lease to another holder.
func (f *fleet) take(ctx context.Context, w int, m *member) error { return f.put(ctx, w, m, true) }

// fail renews a Lease for the last time.
func (f *fleet) fail(ctx context.Context, w int, m *member) error {
	if err := f.put(ctx, w, m, false); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed.IsZero() {
		m.failed = time.Now()
		f.mu.Lock()
		f.failed = append(f.failed, change{m.lease.Name, *m.lease.Spec.HolderIdentity, m.failed.Add(f.duration)})
		f.mu.Unlock()
	}
	return nil
}

// settle waits until the first of those lapse that were watched when they
// failed.
func (f *fleet) settle() {
	f.watched = time.Now()
	f.s.pause(f.duration)
}

// stop ends the renewals.
func (f *fleet) stop() {
	f.ending()
	f.s.must(f.writing.Wait())
}

// read begins to read one Lease after the other, a few in a second, and returns
// what ends it and tells how long each took. Nobody can know of a lapse without
// such a read.
func (f *fleet) read() (end func() samples) {
	client, err := election.NewLeaseClient(f.s.config())
	f.s.must(err)
	ctx, stop := context.WithCancel(f.s.ctx)
	var took samples
	var reading errgroup.Group
	reading.Go(func() error {
		for i := 0; wait(ctx, 200*time.Millisecond); i++ {
			began := time.Now()
			_, err := client.Leases(f.namespace).Get(ctx, fleetName(i%len(f.members)), metav1.GetOptions{})
			switch {
			case ctx.Err() != nil:
			case err != nil:
				return err
			default:
				took.add(time.Since(began))
			}
		}
		return nil
	})
	return func() samples {
		stop()
		f.s.must(reading.Wait())
		return took
	}
}

// latencies holds what the log must tell against what it did tell, and when.
// What happened before it was watched is left out, and what happened in the last
// seconds may still be under way.
func (f *fleet) latencies(told []told) (changes, lapses samples, missing int) {
	began := make(map[[2]string]time.Time)
	ended := make(map[[2]string]time.Time)
	for _, t := range told {
		switch t.event.Transition {
		case events.BecameLeader:
			began[[2]string{t.event.Election.Lease, t.event.Leader}] = t.at
		case events.StoppedLeading:
			if t.event.Reason == events.Expired {
				ended[[2]string{t.event.Election.Lease, t.event.PreviousLeader}] = t.at
			}
		case events.NewLeader:
		}
	}
	count := func(all []change, since time.Time, seen map[[2]string]time.Time) (s samples) {
		for _, c := range all {
			at, ok := seen[[2]string{c.lease, c.holder}]
			switch {
			case c.at.Before(since):
			case ok:
				s.add(max(at.Sub(c.at), 0)) // the watch may have told before the answer
			case time.Since(c.at) > 3*time.Second:
				missing++
			}
		}
		return s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return count(f.changed, f.watched, began), count(f.failed, f.watched.Add(f.duration), ended), missing
}

// burst lets many Leases change hands as fast as the API server takes it, and
// measures how far the log is behind the last of them.
func (f *fleet) burst(c *collector, n int) []row {
	members := f.members[:n]
	before := len(c.all())
	began := time.Now()
	f.each(members, func(ctx context.Context, i int, m *member) error { return f.take(ctx, i, m) })
	written := time.Now()
	wanted := map[string]string{}
	for _, m := range members {
		wanted[m.lease.Name] = *m.lease.Spec.HolderIdentity
	}
	var last time.Time
	f.s.until("the burst is in the log", func() bool {
		stored := 0
		for _, t := range c.all()[before:] {
			if t.event.Transition == events.NewLeader && wanted[t.event.Election.Lease] == t.event.Leader {
				stored++
				last = t.at
			}
		}
		return stored == n
	})
	if err := inOrder(c.all()); err != nil {
		f.s.Errorf("the log is out of order: %v", err)
	}
	name := fmt.Sprintf("%d Leases change hands in %.1f s: ", n, written.Sub(began).Seconds())
	return []row{
		row{Name: name + "last write → all stored", Unit: "ms", Samples: 1, Ours: millis(max(last.Sub(written), 0))}.
			against("≤ 100, in order per election", func(r row) bool { return r.Ours <= 100 && !f.s.Failed() }),
	}
}
