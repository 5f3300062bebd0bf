package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

// startup measures a process's start, from the moment at which it is executed
// to the Lease that it has made: it stands for election then, and leads. The
// floor is the round trips to the API server that this takes, on a connection of
// its own: a watch, a read and a write.
func startup(s *site) []row {
	s.openLog()
	namespace := s.kube().Namespace(s)
	kubeconfig := kubeenv.Kubeconfig(s, s.config(), namespace)
	command := s.leaderbridge()
	made := s.made(namespace)
	var took struct{ ours, floor samples }
	for range s.pick(10, 30) {
		e := s.election(namespace, "ours-"+strconv.FormatInt(s.names.Add(1), 10))
		began := time.Now()
		p := s.launch(nil, command, "run", "--lease-lock-name", e.Lease, "--lease-lock-namespace", namespace, "--cluster", "bench",
			"--kubeconfig", kubeconfig, "--nats-url", s.log().URL(), "--http-addr", "127.0.0.1:0")
		at, err := first(s.ctx, made(e.Lease))
		s.must(err)
		took.ours.add(at.Sub(began))
		p.kill()

		f := s.election(namespace, "floor-"+strconv.FormatInt(s.names.Add(1), 10))
		began = time.Now()
		s.must(s.roundTrips(f))
		at, err = first(s.ctx, made(f.Lease))
		s.must(err)
		took.floor.add(at.Sub(began))
	}
	return []row{
		row{Name: "process start → leading, p50", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p50(), Floor: took.floor.p50()}.
			against("≤ 150 ms beyond the API round trips", func(r row) bool { return r.Ours-r.Floor <= 150 }),
	}
}

// roundTrips makes the requests that a candidate cannot do without.
func (s *site) roundTrips(e events.Election) error {
	client, err := election.NewLeaseClient(s.config())
	if err != nil {
		return err
	}
	leases := client.Leases(e.Namespace)
	ctx, stop := context.WithTimeout(s.ctx, ready)
	defer stop()
	w, err := leases.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + e.Lease})
	if err != nil {
		return err
	}
	defer w.Stop()
	if _, err := leases.Get(ctx, e.Lease, metav1.GetOptions{}); err == nil {
		return errors.New("the Lease is there already")
	}
	_, err = leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: e.Lease, Namespace: e.Namespace},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("bare"), LeaseDurationSeconds: new(int32(15))},
	}, metav1.CreateOptions{})
	return err
}

// made watches a namespace. What it returns tells when a Lease was seen first.
func (s *site) made(namespace string) func(name string) <-chan time.Time {
	client, err := election.NewLeaseClient(s.config())
	s.must(err)
	w, err := client.Leases(namespace).Watch(s.ctx, metav1.ListOptions{})
	s.must(err)
	s.Cleanup(w.Stop)
	return func(name string) <-chan time.Time {
		seen := make(chan time.Time, 1)
		go func() {
			for e := range w.ResultChan() {
				if lease, ok := e.Object.(*coordinationv1.Lease); ok && lease.Name == name {
					seen <- time.Now()
					return
				}
			}
		}()
		return seen
	}
}
