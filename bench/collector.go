package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// collector keeps all that is stored in the log.
type collector struct {
	mu    sync.Mutex
	told  []told
	known map[events.Election]bool
}

// told is an event and when it arrived.
type told struct {
	event events.Event
	at    time.Time
}

// collect follows the log from its beginning.
func (s *site) collect(namespace string) *collector {
	log, err := events.Open(s.ctx, s.connect(), events.Options{ReadOnly: true})
	s.must(err)
	c := &collector{known: map[events.Election]bool{}}
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = log.Follow(ctx, events.FollowOptions{From: events.FromSequence(1), Filter: events.Election{Cluster: "bench", Namespace: namespace}}, func(e events.Entry) error {
			if e.Err == nil {
				c.mu.Lock()
				c.told = append(c.told, told{e.Event, time.Now()})
				c.known[e.Event.Election] = true
				c.mu.Unlock()
			}
			return nil
		})
	}()
	s.Cleanup(func() {
		stop()
		<-done
	})
	return c
}

func (c *collector) elections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known)
}

func (c *collector) all() []told {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// inOrder checks that each election's terms follow one another: every term
// begins once, is told once and ends at most once, in this order, and none is
// left out.
func inOrder(all []told) error {
	last := map[events.Election]events.Event{}
	for _, t := range all {
		e := t.event
		before, known := last[e.Election]
		last[e.Election] = e
		ok := !known
		switch e.Transition {
		case events.BecameLeader:
			ok = ok || before.Transition == events.StoppedLeading && e.Epoch == before.Epoch+1
		case events.NewLeader:
			ok = ok || before.Transition == events.BecameLeader && e.Epoch == before.Epoch
		case events.StoppedLeading:
			ok = ok || before.Transition == events.NewLeader && e.Epoch == before.Epoch
		}
		if !ok {
			return fmt.Errorf("%s: %s of epoch %d follows %s of epoch %d", e.Election, e.Transition, e.Epoch, before.Transition, before.Epoch)
		}
	}
	return nil
}
