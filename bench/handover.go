package main

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/leaderbridge/leaderbridge/internal/telemetry"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// handOver measures a clean hand-over, from the moment at which the leader is
// told to stop to the arrival of became-leader at a plain subscriber. The peer
// is client-go's leaderelection, whose news goes no further than a callback in
// the process. The floor writes and publishes the same bytes.
//
// What lies between the answer to the write that takes the Lease and the
// acknowledgement of the events is a figure of its own.
func handOver(s *site) []row {
	s.openLog()
	namespace := s.kube().Namespace(s)
	sub := s.subscribe()
	ours := s.relay(s.election(namespace, "ours"), sub)
	floor := s.bare(s.election(namespace, "floor"))
	peers := s.peers(namespace, s.pick(12, 20))

	var took struct{ ours, floor, peer, append, appendFloor samples }
	rounds := s.pick(20, 40)
	for phase := range s.pick(2, 6) {
		for range rounds {
			o := ours.handOver()
			took.ours.add(o.arrived.Sub(o.began))
			if o.timed {
				took.append.add(max(o.stored.Sub(o.won), 0)) // the watch may have told before the answer
			}
			f, err := floor.handOver(s.ctx, o.messages)
			s.must(err)
			a, err := sub.next(s.ctx, floor.e, events.BecameLeader)
			s.must(err)
			took.floor.add(a.at.Sub(f.began))
			took.appendFloor.add(f.stored.Sub(f.won))
		}
		all, err := handOverAll(s, peers)
		s.must(err)
		took.peer = append(took.peer, all...)
		s.progress("phase %d: ours %.1f, floor %.1f, client-go %.0f ms at the median", phase+1, took.ours.p50(), took.floor.p50(), took.peer.p50())
	}
	return []row{
		row{Name: "hand-over, p50", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p50(), Peer: took.peer.p50(), Floor: took.floor.p50()}.
			against("≤ 1.5 × floor, ≥ 20 × faster than client-go", func(r row) bool { return r.Ratio <= 1.5 && r.Peer >= 20*r.Ours }),
		row{Name: "hand-over, p99", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p99(), Peer: took.peer.p99(), Floor: took.floor.p99()}.
			against("≤ 3 × floor", func(r row) bool { return r.Ratio <= 3 }),
		row{Name: "Lease taken → events stored, p50", Unit: "ms", Samples: len(took.append), Ours: took.append.p50(), Floor: took.appendFloor.p50()}.
			against("≤ 1.3 × floor, ≤ floor + 0.3 ms", func(r row) bool { return r.Ratio <= 1.3 && r.Ours <= r.Floor+0.3 }),
		row{Name: "Lease taken → events stored, p99", Unit: "ms", Samples: len(took.append), Ours: took.append.p99(), Floor: took.appendFloor.p99()}.
			against("", func(row) bool { return true }),
	}
}

// relay is an election of ours whose leadership goes back and forth between two
// seats.
type relay struct {
	s       *site
	sub     *subscriber
	t       *telemetry.Telemetry
	seats   [2]*seat
	at      int // where the leader sits
	leader  *candidate
	standby *candidate
}

func (s *site) relay(e events.Election, sub *subscriber) *relay {
	r := &relay{s: s, sub: sub, t: s.measured(), seats: [2]*seat{s.seat(e), s.seat(e)}}
	r.leader = r.seats[0].stand(r.t, election.Options{})
	s.until("the first term is in the log", func() bool { return r.leader.stored.Load() != 0 })
	r.standby = r.seats[1].stand(r.t, election.Options{})
	return r
}

// relayed is what one hand-over took.
type relayed struct {
	began, arrived time.Time
	// won and stored are known if timed is true.
	won, stored time.Time
	timed       bool
	// stamped is when the server stored became-leader.
	stamped time.Time
	// messages are what the new leader published.
	messages []*nats.Msg
}

func (r *relay) handOver() relayed {
	e := r.seats[0].e
	r.sub.drop(e, events.BecameLeader)
	r.sub.drop(e, events.NewLeader)
	h := relayed{began: time.Now()}
	r.leader.stop()
	became, err := r.sub.next(r.s.ctx, e, events.BecameLeader)
	r.s.must(err)
	h.arrived = became.at
	meta, err := became.msg.Metadata()
	r.s.must(err)
	h.stamped = meta.Timestamp
	news, err := r.sub.next(r.s.ctx, e, events.NewLeader)
	r.s.must(err)
	h.messages = []*nats.Msg{copyOf(became.msg), copyOf(news.msg)}
	r.s.must(<-r.leader.done)
	h.won, h.stored, h.timed = r.standby.times(r.s)
	next := r.seats[r.at].stand(r.t, election.Options{})
	r.leader, r.standby, r.at = r.standby, next, 1-r.at
	return h
}

// peers starts as many elections of client-go's.
func (s *site) peers(namespace string, n int) []*rivals {
	var all []*rivals
	var starting errgroup.Group
	for i := range n {
		r := s.rivals(namespace, fmt.Sprintf("peer-%d", i))
		all = append(all, r)
		starting.Go(func() error { return r.begin(s.ctx) })
	}
	s.must(starting.Wait())
	s.Cleanup(func() {
		for _, r := range all {
			r.end()
		}
	})
	return all
}

// handOverAll hands over all of client-go's elections at once. A round of
// theirs takes seconds, most of them spent asleep.
func handOverAll(s *site, all []*rivals) (samples, error) {
	took := make(samples, len(all))
	var rounds errgroup.Group
	for i, r := range all {
		rounds.Go(func() error {
			d, err := r.handOver(s.ctx)
			took[i] = millis(d)
			return err
		})
	}
	return took, rounds.Wait()
}
