package events_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// outcome is what AppendEach told of one addition.
type outcome struct {
	last  uint64
	err   error
	times int
}

func appendEach(t *testing.T, log *events.Log, all []events.Addition) []outcome {
	t.Helper()
	var mu sync.Mutex
	outcomes := make([]outcome, len(all))
	log.AppendEach(patient(t), all, func(i int, last uint64, err error) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[i] = outcome{last, err, outcomes[i].times + 1}
	})
	return outcomes
}

// Many elections change hands at once, and some of them cannot: each has the
// outcome that it would have alone, and the others their events, in order.
func TestAppendEach(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		log := openAtomic(t, s, atomic)
		election := func(i int) events.Election {
			return events.Election{Cluster: "default", Namespace: "prod", Lease: fmt.Sprintf("lease-%d", i)}
		}
		const n = 60
		var first []events.Addition
		for i := range n {
			first = append(first, events.Addition{Election: election(i), Events: term(election(i), 1)})
		}
		begun := appendEach(t, log, first)
		second := make([]events.Addition, n)
		want := make([]error, n)
		for i, o := range begun {
			if o.err != nil || o.last == 0 || o.times != 1 {
				t.Fatalf("lease-%d: %+v", i, o)
			}
			second[i] = events.Addition{Election: election(i), After: o.last, Events: term(election(i), 2)}
			switch i % 10 {
			case 3:
				second[i].After--
				want[i] = events.ErrBehind
			case 5:
				second[i].Events = term(election(i+1), 2)
				want[i] = events.ErrRefused
			case 7:
				second[i].Events = nil
			}
		}
		for i, o := range appendEach(t, log, second) {
			if o.times != 1 {
				t.Errorf("lease-%d: told %d times", i, o.times)
			}
			if !errors.Is(o.err, want[i]) || o.err == nil && o.last == 0 {
				t.Errorf("lease-%d: %+v, want %v", i, o, want[i])
			}
			tail, err := log.Tail(patient(t), election(i))
			if err != nil {
				t.Fatal(err)
			}
			if want[i] == nil && tail.Seq != o.last {
				t.Errorf("lease-%d: told of %d, the tail is %d", i, o.last, tail.Seq)
			}
			epoch := uint64(2)
			if want[i] != nil || len(second[i].Events) == 0 {
				epoch = 1
			}
			if tail.Last.Epoch != epoch || tail.Last.Transition != events.NewLeader {
				t.Errorf("lease-%d ends with %s of %d, want term %d", i, tail.Last.Transition, tail.Last.Epoch, epoch)
			}
			if i%20 == 0 {
				if err := exact(history(t, s.JetStream(t), election(i))); err != nil {
					t.Errorf("lease-%d: %v", i, err)
				}
			}
		}
	})
}

// Events whose ids the server still knows, although it has lost them, do not
// hold up those of other elections.
func TestAppendEachWithRememberedIDs(t *testing.T) {
	s := natsenv.Start(t)
	log := openAtomic(t, s, false)
	other := events.Election{Cluster: "default", Namespace: "prod", Lease: "other"}
	if o := appendEach(t, log, []events.Addition{{Election: scheduler, Events: term(scheduler, 1)}}); o[0].err != nil {
		t.Fatal(o[0].err)
	}
	stream, err := s.JetStream(t).Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(patient(t)); err != nil {
		t.Fatal(err)
	}
	for i, o := range appendEach(t, log, []events.Addition{
		{Election: scheduler, Events: term(scheduler, 1)}, {Election: other, Events: term(other, 1)},
	}) {
		if o.err != nil || o.times != 1 {
			t.Errorf("addition %d: %+v", i, o)
		}
	}
	for _, e := range []events.Election{scheduler, other} {
		if all := history(t, s.JetStream(t), e); len(all) != 2 || exact(all) != nil {
			t.Errorf("%s: %d events, %v", e, len(all), exact(all))
		}
	}
}
