package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// standby counts the requests that a standby makes to the API server while a
// leader leads, at the default durations. Ours and client-go's stand by for the
// same Leases. A watch counts as one request.
func standby(s *site) []row {
	namespace := s.kube().Namespace(s)
	var ours, peer requests
	n := s.pick(16, 24)
	for i := range n {
		name := fmt.Sprintf("lease-%d", i)
		leader := s.elector(s.config(), namespace, name)
		s.until("the leader leads", func() bool { return leader.Term() != nil })
		second := s.elector(ours.counted(s.config()), namespace, name)
		s.until("the standby watches", func() bool { return second.Snapshot().Watching })
		r := s.rivals(namespace, name)
		client, err := kubernetes.NewForConfig(peer.counted(s.config()))
		s.must(err)
		r.clients[1] = client
		r.standby, err = r.stand(s.ctx, 1)
		s.must(err)
		s.Cleanup(r.end)
	}
	// What a standby does to begin with is over after a poll of client-go's.
	s.pause(4 * time.Second)
	window := time.Duration(s.pick(20, 60)) * time.Second
	beganOurs, beganPeer := ours.count.Load(), peer.count.Load()
	s.pause(window)
	perLease := func(count int64) float64 {
		return float64(count) / float64(n) / (float64(window) / float64(election.DefaultLeaseDuration))
	}
	return []row{
		row{Name: "API requests of a standby", Unit: "per lease duration", Samples: n, Ours: perLease(ours.count.Load() - beganOurs), Peer: perLease(peer.count.Load() - beganPeer)}.
			against("≤ 1, ≤ 1/5 of client-go's", func(r row) bool { return r.Ours <= 1 && r.Peer >= 5*r.Ours }),
	}
}

// elector stands for election until the benchmark is over.
func (s *site) elector(cfg *rest.Config, namespace, name string) *election.Elector {
	client, err := election.NewLeaseClient(cfg)
	s.must(err)
	lock, err := election.NewLeaseLock(client, namespace, name)
	s.must(err)
	e, err := election.New(lock, election.Options{Identity: fmt.Sprintf("ours-%d", s.root.names.Add(1))})
	s.must(err)
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.Errorf("stand for election: %v", err)
		}
	})
	return e
}

// requests counts what goes to the API server.
type requests struct{ count atomic.Int64 }

// counted lets a client's requests be counted.
func (r *requests) counted(cfg *rest.Config) *rest.Config {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			r.count.Add(1)
			return next.RoundTrip(q)
		})
	})
	return cfg
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }
