package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// burst measures how fast the way into the log is when a thousand elections
// change hands at the same moment: three events each, which must follow one
// another. The floor publishes the same number of the same messages in batches
// of a thousand, under the same conditions.
func burst(s *site) []row {
	const n = 1000
	s.openLog()
	r := s.recorder()
	elections := make([]events.Election, n)
	for i := range elections {
		elections[i] = s.election("burst", "lease-"+strconv.Itoa(i))
	}
	floor := s.batches(n)
	var took struct{ ours, floor samples } // events a second
	var messages []*nats.Msg
	for round := range s.pick(4, 10) + 1 {
		d := r.change(elections, round)
		if round == 0 {
			continue // the first terms end nobody's
		}
		if messages == nil {
			messages = floor.templates(elections[0])
		}
		took.ours = append(took.ours, 3*n/d.Seconds())
		took.floor = append(took.floor, 3*n/floor.publish(messages).Seconds())
	}
	return []row{
		row{Name: "burst of 1,000 hand-overs: events stored", Unit: "1/s", Samples: len(took.ours), Ours: took.ours.p50(), Floor: took.floor.p50()}.
			against("≥ 0.7 × floor", func(r row) bool { return r.Ratio >= 0.7 }),
	}
}

// recording is the part of a watcher that writes the log.
type recording struct {
	s *site
	*events.Recorder
	mu   sync.Mutex
	left int
	all  chan struct{}
}

func (s *site) recorder() *recording {
	nc := s.connect()
	r := &recording{s: s}
	var err error
	r.Recorder, err = events.NewRecorder(logbook.New(nc, events.Options{}, nil), events.RecorderOptions{
		Reporter: events.Reporter{Identity: "bench", Perspective: events.ByWatcher},
		Delay:    -1,
		Hooks: events.Hooks{Appended: func(events.Election, []events.Event, uint64, time.Duration) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.left--; r.left == 0 {
				close(r.all)
			}
		}},
	})
	s.must(err)
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		s.must(<-done)
	})
	return r
}

// change tells of a new holder of every election, and returns how long it took
// until all of it was stored.
func (r *recording) change(elections []events.Election, round int) time.Duration {
	r.mu.Lock()
	r.left, r.all = len(elections), make(chan struct{})
	all := r.all
	r.mu.Unlock()
	began := time.Now()
	for i, e := range elections {
		r.Observe(e, events.Observed{
			Status: events.Held, UID: fmt.Sprintf("7b0c4f0e-4a5e-4a43-9c55-%012x", i), Holder: fmt.Sprintf("pod-%d_%d", i, round),
			Revision: uint64(round)*10_000 + uint64(i) + 1, At: began, AcquireTime: began.UTC().Truncate(time.Microsecond),
			RenewTime: began.UTC().Truncate(time.Microsecond), LeaseTransitions: new(round), LeaseDurationSeconds: new(15),
		})
	}
	select {
	case <-all:
	case <-time.After(ready):
		r.s.Fatalf("the burst is not stored: %+v", r.Stats())
	}
	return time.Since(began)
}

// batches are bare clients of as many elections.
type batches struct {
	s    *site
	js   jetstream.JetStream
	all  []*bare
	made int
}

func (s *site) batches(n int) *batches {
	js, err := jetstream.New(s.connect(), jetstream.WithPublishAsyncMaxPending(n))
	s.must(err)
	b := &batches{s: s, js: js}
	for i := range n {
		b.all = append(b.all, &bare{s: s, e: s.election("floor", "lease-"+strconv.Itoa(i))})
	}
	return b
}

// templates are the last three messages of an election of ours.
func (b *batches) templates(e events.Election) []*nats.Msg {
	log, err := jetstream.New(b.s.connect())
	b.s.must(err)
	stream, err := log.Stream(b.s.ctx, events.DefaultStream)
	b.s.must(err)
	var all []*nats.Msg
	for _, t := range []events.Transition{events.StoppedLeading, events.BecameLeader, events.NewLeader} {
		m, err := stream.GetLastMsgForSubject(b.s.ctx, e.Subject(events.DefaultPrefix, t))
		b.s.must(err)
		all = append(all, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return all
}

// publish stores each message for every election, one batch for each message,
// and returns how long it took.
func (b *batches) publish(messages []*nats.Msg) time.Duration {
	b.made++
	ready := make([][]*nats.Msg, len(b.all))
	for i, e := range b.all {
		var err error
		e.round = b.made
		ready[i], err = e.prepare(messages)
		b.s.must(err)
	}
	began := time.Now()
	for step := range messages {
		futures := make([]jetstream.PubAckFuture, len(b.all))
		for i, e := range b.all {
			e.condition(ready[i][step])
			var err error
			futures[i], err = b.js.PublishMsgAsync(ready[i][step])
			b.s.must(err)
		}
		for i, f := range futures {
			select {
			case ack := <-f.Ok():
				b.all[i].after = ack.Sequence
			case err := <-f.Err():
				b.s.must(err)
			}
		}
	}
	return time.Since(began)
}
