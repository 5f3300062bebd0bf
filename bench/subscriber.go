package main

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// subscriber is a plain reader of the log, as a program in any language would
// be: an ordered consumer, which delivers what is stored. It knows when each
// message arrived.
type subscriber struct {
	mu   sync.Mutex
	seen map[string]chan arrival // by subject
}

type arrival struct {
	at  time.Time
	msg jetstream.Msg
}

// subscribe reads what is stored from now on.
func (s *site) subscribe() *subscriber {
	js, err := jetstream.New(s.connect())
	s.must(err)
	consumer, err := js.OrderedConsumer(s.ctx, events.DefaultStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
	s.must(err)
	sub := &subscriber{seen: map[string]chan arrival{}}
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		a := arrival{time.Now(), m}
		select {
		case sub.on(m.Subject()) <- a:
		default: // nobody waits for it
		}
	})
	s.must(err)
	s.Cleanup(consuming.Stop)
	return sub
}

// on returns where the arrivals of a subject are.
func (s *subscriber) on(subject string) chan arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.seen[subject]
	if c == nil {
		c = make(chan arrival, 64)
		s.seen[subject] = c
	}
	return c
}

// next waits for the next message of an election's transition.
func (s *subscriber) next(ctx context.Context, e events.Election, t events.Transition) (arrival, error) {
	select {
	case a := <-s.on(e.Subject(events.DefaultPrefix, t)):
		return a, nil
	case <-ctx.Done():
		return arrival{}, context.Cause(ctx)
	case <-time.After(time.Minute):
		return arrival{}, errors.New("no " + string(t) + " of " + e.String() + " within a minute")
	}
}

// drop forgets what has arrived and nobody has asked for.
func (s *subscriber) drop(e events.Election, t events.Transition) {
	for {
		select {
		case <-s.on(e.Subject(events.DefaultPrefix, t)):
		default:
			return
		}
	}
}

// copyOf returns the message as it could be published again.
func copyOf(m jetstream.Msg) *nats.Msg {
	header := nats.Header{}
	maps.Copy(header, m.Headers())
	return &nats.Msg{Subject: m.Subject(), Header: header, Data: m.Data()}
}
