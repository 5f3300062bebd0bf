package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// fault is something done to a leader or to its Lease, and the reasons for the
// end of its term that may come of it. Faults of the shared servers can end any
// term.
type fault struct {
	name    string
	reasons []events.Reason
	// any are further reasons, for whoever leads when the fault takes effect:
	// a request to step down, or to delete the Lease, names no leader.
	any []events.Reason
	// deadly faults end the leader's process.
	deadly bool
	do     func(*stage, *actor)
}

// shaken are the ends that a fault of the API server or of NATS can bring to
// any term.
var shaken = []events.Reason{events.RenewDeadline, events.Expired, events.Superseded}

func ends(r ...events.Reason) []events.Reason { return append(r, shaken...) }

var faults = []fault{
	{name: "leader killed", reasons: ends(), deadly: true, do: func(s *stage, a *actor) {
		a.process.Signal(syscall.SIGKILL)
		<-a.process.Done()
		s.start(a)
		s.otherThan(a.id)
	}},
	{name: "leader stopped", reasons: ends(events.Released), deadly: true, do: (*stage).stop},
	{name: "leader paused", reasons: ends(), do: func(s *stage, a *actor) {
		a.process.Signal(syscall.SIGSTOP)
		time.Sleep(s.fewSeconds())
		a.process.Signal(syscall.SIGCONT)
	}},
	{name: "leader asked to step down", reasons: ends(), any: []events.Reason{events.StepDown}, do: func(s *stage, a *actor) {
		e := events.Election{Cluster: "default", Namespace: s.namespace, Lease: "scheduler"}
		_, _ = s.nc.Request(e.RequestSubject(events.DefaultPrefix, events.StepDownVerb), nil, 2*time.Second)
		time.Sleep(100 * time.Millisecond)
	}},
	{name: "API server swallows the leader's requests", reasons: ends(), do: func(s *stage, a *actor) {
		heal := a.api.hang(s.t)
		time.Sleep(s.fewSeconds())
		heal()
	}},
	{name: "leader cut off from the API server", reasons: ends(), do: func(s *stage, a *actor) {
		heal := a.api.cut(s.t)
		time.Sleep(s.fewSeconds())
		heal()
	}},
	{name: "leader cut off from everything", reasons: ends(), do: func(s *stage, a *actor) {
		healNATS, healAPI := a.nats.cut(s.t), a.api.cut(s.t)
		time.Sleep(s.fewSeconds())
		healAPI()
		time.Sleep(upTo(s.rng, 500*time.Millisecond))
		healNATS()
	}},
	{name: "leader cut off from NATS and stopped", reasons: ends(events.Released), deadly: true, do: func(s *stage, a *actor) {
		heal := a.nats.cut(s.t)
		defer heal()
		s.stop(a)
	}},
	{name: "NATS swallows, Lease deleted", reasons: ends(), any: []events.Reason{events.Deleted}, do: func(s *stage, a *actor) {
		heal := a.nats.hang(s.t)
		defer heal()
		s.delete()
		time.Sleep(upTo(s.rng, 2*time.Second))
	}},
	{name: "Lease deleted", reasons: ends(), any: []events.Reason{events.Deleted}, do: func(s *stage, _ *actor) {
		s.delete()
		time.Sleep(300 * time.Millisecond)
	}},
	{name: "Lease deleted under a paused leader", reasons: ends(), any: []events.Reason{events.Deleted}, do: func(s *stage, a *actor) {
		a.process.Signal(syscall.SIGSTOP)
		defer a.process.Signal(syscall.SIGCONT)
		s.delete()
		time.Sleep(lease + upTo(s.rng, time.Second))
	}},
	{name: "Lease overwritten", reasons: ends(), do: (*stage).overwrite},
	{name: "leader cut off from NATS, Lease overwritten", reasons: ends(), do: func(s *stage, a *actor) {
		heal := a.nats.cut(s.t)
		defer heal()
		s.overwrite(a)
		time.Sleep(upTo(s.rng, time.Second))
	}},
}

// fewSeconds is how long a fault lasts that the leader may survive: for more
// than the renew deadline in most cases.
func (s *stage) fewSeconds() time.Duration { return fewSeconds(s.rng) }

func fewSeconds(rng *rand.Rand) time.Duration {
	if rng.IntN(4) == 0 {
		return upTo(rng, deadline)
	}
	return deadline + upTo(rng, 1600*time.Millisecond)
}

// stop ends a replica as an orchestrator does, and starts its successor.
func (s *stage) stop(a *actor) {
	a.process.Signal(syscall.SIGTERM)
	a.process.Wait(time.Minute)
	s.start(a)
}

func (s *stage) delete() {
	_ = s.leases.Delete(context.Background(), "scheduler", metav1.DeleteOptions{})
}

// overwrite lets somebody else stand in the Lease, as an operator might, unless
// the leader renews in between or the API server is away.
func (s *stage) overwrite(a *actor) {
	obj, err := s.leases.Get(context.Background(), "scheduler", metav1.GetOptions{})
	if err != nil || obj.Spec.HolderIdentity == nil || *obj.Spec.HolderIdentity != a.id {
		return
	}
	who, now, seconds, transitions := intruder, metav1.NowMicro(), int32(lease/time.Second), *obj.Spec.LeaseTransitions+1
	obj.Spec.HolderIdentity, obj.Spec.AcquireTime, obj.Spec.RenewTime = &who, &now, &now
	obj.Spec.LeaseDurationSeconds, obj.Spec.LeaseTransitions = &seconds, &transitions
	if _, err := s.leases.Update(context.Background(), obj, metav1.UpdateOptions{}); err == nil {
		s.otherThan(a.id)
	}
}

// otherThan waits until the Lease names somebody else.
func (s *stage) otherThan(id string) {
	testenv.Eventually(s.t, patience, func() error {
		if h := s.history(); h[len(h)-1].holder != id {
			return nil
		}
		return fmt.Errorf("%s: still %s", s.name, id)
	})
}
