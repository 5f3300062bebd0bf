package main

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// appendAlone holds the log's append, which begins with the events, against a
// bare client that has the same bytes ready. Nothing else happens meanwhile, so
// this is all that the log's own code costs.
func appendAlone(s *site) []row {
	log, err := events.Open(s.ctx, s.connect(), events.Options{})
	s.must(err)
	js, err := jetstream.New(s.connect())
	s.must(err)
	ours := s.election("bench", "ours")
	floor := &bare{s: s, e: s.election("bench", "floor")}
	var last uint64
	var took struct{ ours, floor samples }
	const warm = 100
	for round := range s.pick(1000, 4000) + warm {
		event := became(ours, uint64(round)+1)
		began := time.Now()
		last, err = log.Append(s.ctx, ours, last, event)
		s.must(err)
		d := time.Since(began)

		header, data, err := events.Encode(event, events.Structured)
		s.must(err)
		floor.round = round
		messages, err := floor.prepare([]*nats.Msg{{Subject: ours.Subject(events.DefaultPrefix, event.Transition), Header: header, Data: data}})
		s.must(err)
		began = time.Now()
		ack, err := js.PublishMsg(s.ctx, messages[0])
		s.must(err)
		floor.after = ack.Sequence
		if round >= warm {
			took.ours.add(d)
			took.floor.add(time.Since(began))
		}
	}
	return []row{
		row{Name: "append of one event, alone, p50", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p50(), Floor: took.floor.p50()}.
			against("≤ 1.3 × floor, ≤ floor + 0.3 ms", func(r row) bool { return r.Ratio <= 1.3 && r.Ours <= r.Floor+0.3 }),
		row{Name: "append of one event, alone, p99", Unit: "ms", Samples: len(took.ours), Ours: took.ours.p99(), Floor: took.floor.p99()}.
			against("", func(row) bool { return true }),
	}
}

// became is an ordinary event with every field set.
func became(e events.Election, epoch uint64) events.Event {
	at := time.Now().UTC().Truncate(time.Microsecond)
	return events.Event{
		Election: e, Transition: events.BecameLeader, UID: "5f0b2c34-7d3e-4a19-9a4e-0c9d3f1e8b70", Epoch: epoch, Time: at,
		Leader: fmt.Sprintf("pod-%d_5f3a9c1e", epoch), PreviousLeader: fmt.Sprintf("pod-%d_5f3a9c1e", epoch-1), Reason: events.Acquired,
		LeaseTransitions: new(int(epoch)), LeaseDurationSeconds: new(15), AcquireTime: at, RenewTime: at, LeaderlessMillis: new(int64(21)),
		Reporter: fmt.Sprintf("pod-%d_5f3a9c1e", epoch), Perspective: events.ByLeader, Revision: 1000 + epoch,
	}
}
