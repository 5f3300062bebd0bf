package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

// Short leases, with the proportions of the defaults, to crash often.
const (
	crashLease = 3 * time.Second
	crashRenew = 2 * time.Second
	crashRetry = 400 * time.Millisecond
	// crashSpread is how far apart the crashes of one phase may be. All of them
	// at once would measure how the processes of this machine get in each
	// other's way.
	crashSpread = 2 * time.Second
)

// crash measures what the death of a leader by SIGKILL costs beyond the bound
// that the lease itself sets: the moment of the last renewal, as it is written
// in the Lease, and the lease's duration after it. Candidates are processes of
// their own. Of client-go's, the leader ceases to renew without a word.
func crash(s *site) []row {
	s.openLog()
	sub := s.subscribe()
	namespace := s.kube().Namespace(s)
	seen := s.renewals(namespace)
	kubeconfig := kubeenv.Kubeconfig(s, s.config(), namespace)

	n := s.pick(4, 8)
	var ours []*crashPair
	for i := range n {
		ours = append(ours, s.crashPair(s.election(namespace, fmt.Sprintf("ours-%d", i)), kubeconfig))
	}
	var peers []*rivals
	for i := range n {
		r := s.rivals(namespace, fmt.Sprintf("peer-%d", i))
		r.lease, r.deadline, r.retry, r.keeps = crashLease, crashRenew, crashRetry, true
		s.must(r.begin(s.ctx))
		s.Cleanup(r.end)
		peers = append(peers, r)
	}

	var took struct{ ours, seen, peer samples }
	for phase := range s.pick(3, 13) {
		var killing errgroup.Group
		var mu sync.Mutex
		for _, p := range ours {
			killing.Go(func() error {
				late, err := p.crash(s.ctx, sub, seen)
				mu.Lock()
				took.ours.add(late.written)
				took.seen.add(late.seen)
				mu.Unlock()
				return err
			})
		}
		for _, r := range peers {
			killing.Go(func() error {
				late, err := r.crash(s.ctx, seen)
				mu.Lock()
				took.peer.add(late)
				mu.Unlock()
				return err
			})
		}
		s.must(killing.Wait())
		for _, p := range ours {
			p.refill(s)
		}
		for _, p := range ours {
			p.standby.ready(p.standby.port)
		}
		s.progress("phase %d: ours %.1f, client-go %.0f ms beyond the bound at the median", phase+1, took.ours.p50(), took.peer.p50())
	}
	return []row{
		row{Name: "crash: beyond the lease's bound, p50", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p50(), Peer: took.peer.p50()}.
			against("", func(row) bool { return true }),
		row{Name: "crash: beyond the lease's bound, p99", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p99(), Peer: took.peer.p99()}.
			against("≤ 50 ms", func(r row) bool { return r.Ours <= 50 }),
		row{Name: "crash: beyond a lease after the last renewal was seen, p99", Unit: "ms", Samples: len(took.seen), Ours: took.seen.p99()}.
			against("≤ 50 ms", func(r row) bool { return r.Ours <= 50 }),
	}
}

// crashPair is an election of two processes of ours.
type crashPair struct {
	e               events.Election
	kubeconfig      string
	leader, standby *standing
}

type standing struct {
	*process
	id   string
	port int
}

func (s *site) crashPair(e events.Election, kubeconfig string) *crashPair {
	p := &crashPair{e: e, kubeconfig: kubeconfig}
	p.leader = p.stand(s)
	p.leader.ready(p.leader.port)
	p.standby = p.stand(s)
	p.standby.ready(p.standby.port)
	return p
}

func (p *crashPair) stand(s *site) *standing {
	port, err := testenv.FreePort()
	s.must(err)
	id := "ours-" + strconv.FormatInt(s.names.Add(1), 10)
	return &standing{id: id, port: port, process: s.start("run",
		"--lease-lock-name", p.e.Lease, "--lease-lock-namespace", p.e.Namespace, "--cluster", p.e.Cluster,
		"--kubeconfig", p.kubeconfig, "--nats-url", s.log().URL(), "--id", id, "--http-addr", "127.0.0.1:"+strconv.Itoa(port),
		"--lease-duration", crashLease.String(), "--renew-deadline", crashRenew.String(), "--retry-period", crashRetry.String())}
}

// lateness is how long after a lease's bound somebody was known to lead. The
// bound counts from when the last renewal was written, as its holder says, or
// from when a bare watch brought it: before that no observer could know of it,
// and must not take the Lease earlier.
type lateness struct{ written, seen time.Duration }

// crash kills the leader and returns how late the other one was.
func (p *crashPair) crash(ctx context.Context, sub *subscriber, seen *renewals) (lateness, error) {
	sub.drop(p.e, events.BecameLeader)
	if err := seen.another(ctx, p.e.Lease, p.leader.id); err != nil {
		return lateness{}, err
	}
	if err := anyMoment(ctx, crashSpread); err != nil {
		return lateness{}, err
	}
	p.leader.kill()
	a, err := sub.next(ctx, p.e, events.BecameLeader)
	if err != nil {
		return lateness{}, err
	}
	last := seen.last(p.e.Lease, p.leader.id)
	return lateness{a.at.Sub(last.written.Add(crashLease)), a.at.Sub(last.seen.Add(crashLease))}, nil
}

// refill lets a new process stand by.
func (p *crashPair) refill(s *site) { p.leader, p.standby = p.standby, p.stand(s) }

// crash lets client-go's leader cease to renew.
func (r *rivals) crash(ctx context.Context, seen *renewals) (time.Duration, error) {
	if err := seen.another(ctx, r.name, r.leader.id); err != nil {
		return 0, err
	}
	if err := anyMoment(ctx, crashSpread); err != nil {
		return 0, err
	}
	r.leader.stop()
	at, err := r.standby.leads(ctx)
	if err != nil {
		return 0, err
	}
	<-r.leader.ended
	late := at.Sub(seen.last(r.name, r.leader.id).written.Add(r.lease))
	next, err := r.stand(ctx, r.leader.side)
	if err != nil {
		return 0, err
	}
	r.leader, r.standby = r.standby, next
	return late, nil
}

// anyMoment waits for some part of d.
func anyMoment(ctx context.Context, d time.Duration) error {
	pause := time.NewTimer(rand.N(d))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// renewals knows when each holder of each Lease in a namespace last renewed it.
type renewals struct {
	mu    sync.Mutex
	times map[[2]string]renewal
}

// renewal is when its holder wrote it, by what it says, and when it was seen.
type renewal struct{ written, seen time.Time }

func (s *site) renewals(namespace string) *renewals {
	client, err := election.NewLeaseClient(s.config())
	s.must(err)
	w, err := client.Leases(namespace).Watch(s.ctx, metav1.ListOptions{})
	s.must(err)
	s.Cleanup(w.Stop)
	r := &renewals{times: map[[2]string]renewal{}}
	go func() {
		for e := range w.ResultChan() {
			lease, ok := e.Object.(*coordinationv1.Lease)
			if !ok || lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil {
				continue
			}
			r.mu.Lock()
			r.times[[2]string{lease.Name, *lease.Spec.HolderIdentity}] = renewal{lease.Spec.RenewTime.Time, time.Now()}
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *renewals) last(lease, holder string) renewal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[[2]string{lease, holder}]
}

// another waits for one more renewal. A standby that has just begun counts from
// what it saw first, as it must, and not from a renewal before that.
func (r *renewals) another(ctx context.Context, lease, holder string) error {
	before := r.last(lease, holder).seen
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for r.last(lease, holder).seen.Equal(before) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
