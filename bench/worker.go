package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// workers measures how long after the beginning of a term, which is when the
// server stored became-leader, a worker's handler runs. That takes a grant. The
// floor is a subscription to the log that makes one request to a responder and
// then counts as running, in a hand-over of the bare clients.
func workers(s *site) []row {
	s.openLog()
	namespace := s.kube().Namespace(s)
	sub := s.subscribe()
	ours := s.relay(s.election(namespace, "ours"), sub)
	floor := s.bare(s.election(namespace, "floor"))
	running := s.worker(ours.seats[0].e)
	bareRunning := s.bareWorker(floor.e)

	var took struct{ ours, floor samples }
	for range s.pick(40, 200) {
		o := ours.handOver()
		at, err := first(s.ctx, running)
		s.must(err)
		took.ours.add(at.Sub(o.stamped))

		_, err = floor.handOver(s.ctx, o.messages)
		s.must(err)
		a, err := sub.next(s.ctx, floor.e, events.BecameLeader)
		s.must(err)
		meta, err := a.msg.Metadata()
		s.must(err)
		at, err = first(s.ctx, bareRunning)
		s.must(err)
		took.floor.add(at.Sub(meta.Timestamp))
	}
	return []row{
		row{Name: "event stored → worker's handler runs, p50", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p50(), Floor: took.floor.p50()}.
			against("≤ 1.5 × floor", func(r row) bool { return r.Ratio <= 1.5 }),
		row{Name: "event stored → worker's handler runs, p99", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p99(), Floor: took.floor.p99()}.
			against("", func(row) bool { return true }),
	}
}

func first(ctx context.Context, c <-chan time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	select {
	case at := <-c:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// worker runs a worker of ours, and returns when it holds a grant. The channel
// tells when its handler ran again.
func (s *site) worker(e events.Election) <-chan time.Time {
	running := make(chan time.Time, 1)
	w, err := worker.New(s.connect(), worker.Options{
		Election: e, Role: "bench",
		Handler: func(ctx context.Context, _ worker.Term) error {
			running <- time.Now()
			<-ctx.Done()
			return nil
		},
	})
	s.must(err)
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("run a worker: %v", err)
		}
	})
	_, err = first(s.ctx, running)
	s.must(err)
	return running
}

// bareWorker is a subscription and a request.
func (s *site) bareWorker(e events.Election) <-chan time.Time {
	const subject = "bench.grant"
	leader := s.connect()
	_, err := leader.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(m.Data) })
	s.must(err)
	s.must(leader.Flush())
	nc := s.connect()
	js, err := jetstream.New(nc)
	s.must(err)
	consumer, err := js.OrderedConsumer(s.ctx, events.DefaultStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{e.Filter(events.DefaultPrefix)}, DeliverPolicy: jetstream.DeliverNewPolicy,
	})
	s.must(err)
	running := make(chan time.Time, 1)
	became := e.Subject(events.DefaultPrefix, events.BecameLeader)
	request := make([]byte, 150) // about as long as a worker's
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		if m.Subject() != became {
			return
		}
		if _, err := nc.Request(subject, request, ready); err != nil {
			s.progress("the bare worker got no answer: %v", err)
			return
		}
		running <- time.Now()
	})
	s.must(err)
	s.Cleanup(consuming.Stop)
	return running
}
