package events_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// BenchmarkAppend holds [events.Log.Append] against the bare client that stores
// the same bytes under the same condition, in turns in one run. It reports the
// medians in microseconds, and how many times the bare client's median ours is.
func BenchmarkAppend(b *testing.B) {
	b.Run("one-server", func(b *testing.B) {
		s := natsenv.Start(b)
		log := openLog(b, s, events.Options{})
		compareAppends(b, log, s.Connect(b))
	})
	b.Run("one-server-batch", func(b *testing.B) {
		s := natsenv.Start(b)
		log := openAtomic(b, s, true)
		compareAppends(b, log, s.Connect(b))
	})
	b.Run("cluster", func(b *testing.B) {
		c := natsenv.StartCluster(b)
		leader := func() *nats.Conn { return c.Server(c.StreamLeader(b, events.DefaultStream)).Connect(b) }
		openOnCluster(b, c, events.Options{})
		log, err := events.Open(b.Context(), leader(), events.Options{})
		if err != nil {
			b.Fatal(err)
		}
		compareAppends(b, log, leader())
	})
}

func compareAppends(b *testing.B, log *events.Log, conn *nats.Conn) {
	js, err := jetstream.New(conn)
	if err != nil {
		b.Fatal(err)
	}
	// Each prepares a step outside the time that is measured. The bare client
	// finds its bytes ready; ours begins with the events.
	type prepare func(after uint64, all []events.Event) (store func() uint64)
	bare := func(e events.Election, n int) prepare {
		return func(after uint64, all []events.Event) func() uint64 {
			messages := encoded(b, e, all[:n])
			condition(messages[0], e, after)
			if n > 1 && log.Atomic() {
				return func() uint64 {
					ack, err := jetstreamext.PublishMsgBatch(b.Context(), js, messages, jetstreamext.BatchFlowControl{})
					if err != nil {
						b.Fatal(err)
					}
					return ack.Sequence
				}
			}
			return func() uint64 {
				seq := uint64(0)
				for i, m := range messages {
					if i > 0 {
						condition(m, e, seq)
					}
					ack, err := js.PublishMsg(b.Context(), m)
					if err != nil {
						b.Fatal(err)
					}
					seq = ack.Sequence
				}
				return seq
			}
		}
	}
	ours := func(e events.Election, n int) prepare {
		return func(after uint64, all []events.Event) func() uint64 {
			return func() uint64 {
				seq, err := log.Append(b.Context(), e, after, all[:n]...)
				if err != nil {
					b.Fatal(err)
				}
				return seq
			}
		}
	}
	type contender struct {
		name    string
		e       events.Election
		prepare prepare
		last    uint64
		took    []time.Duration
	}
	var all []*contender
	for _, n := range []int{1, 3} {
		for name, kind := range map[string]func(events.Election, int) prepare{"bare": bare, "ours": ours} {
			name += strconv.Itoa(n)
			all = append(all, &contender{name: name, e: lease(name), prepare: kind(lease(name), n)})
		}
	}
	epoch := uint64(1)
	for b.Loop() {
		epoch++
		for _, c := range all {
			store := c.prepare(c.last, term(c.e, epoch))
			began := time.Now()
			c.last = store()
			c.took = append(c.took, time.Since(began))
		}
	}
	median := map[string]float64{}
	for _, c := range all {
		slices.Sort(c.took)
		median[c.name] = float64(c.took[len(c.took)/2].Nanoseconds()) / 1e3
		b.ReportMetric(median[c.name], c.name+"-µs")
	}
	b.ReportMetric(median["ours1"]/median["bare1"], "ratio1")
	b.ReportMetric(median["ours3"]/median["bare3"], "ratio3")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkManyElections measures what the number of elections in the log costs:
// reading a tail, an append, and a follower's way to the last state of all.
func BenchmarkManyElections(b *testing.B) {
	for _, n := range []int{10, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := natsenv.Start(b)
			log := openLog(b, s, events.Options{})
			js := s.JetStream(b)
			for i := range n {
				for _, m := range encoded(b, lease("l"+strconv.Itoa(i)), term(lease("l"+strconv.Itoa(i)), 2)) {
					if _, err := js.PublishMsgAsync(m); err != nil {
						b.Fatal(err)
					}
				}
				if i%500 == 499 || i == n-1 {
					<-js.PublishAsyncComplete()
				}
			}
			var tails, appends, follows []time.Duration
			epoch := uint64(2)
			for b.Loop() {
				epoch++
				e := lease("l" + strconv.Itoa(int(epoch)%n))
				began := time.Now()
				tail, err := log.Tail(b.Context(), e)
				if err != nil {
					b.Fatal(err)
				}
				tails = append(tails, time.Since(began))
				began = time.Now()
				if _, err := log.Append(b.Context(), e, tail.Seq, term(e, tail.Last.Epoch+1)[0]); err != nil {
					b.Fatal(err)
				}
				appends = append(appends, time.Since(began))
				if len(follows) < 5 {
					began = time.Now()
					follows = append(follows, untilCurrent(b, log).Sub(began))
				}
			}
			for name, took := range map[string][]time.Duration{"tail": tails, "append": appends, "follow": follows} {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, name+"-µs")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// untilCurrent follows the log from the last state of all, and returns when that
// was delivered.
func untilCurrent(b *testing.B, log *events.Log) time.Time {
	ctx, cancel := context.WithCancel(b.Context())
	var at time.Time
	err := log.Follow(ctx, events.FollowOptions{OnState: func(state events.FeedState) {
		if state.Current {
			at = time.Now()
			cancel()
		}
	}}, func(events.Entry) error { return nil })
	if !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
	return at
}

// encoded is what the log sends for these events.
func encoded(b *testing.B, e events.Election, all []events.Event) []*nats.Msg {
	var messages []*nats.Msg
	for _, event := range all {
		header, data, err := events.Encode(event, events.Structured)
		if err != nil {
			b.Fatal(err)
		}
		header[jetstream.MsgIDHeader] = []string{event.ID()}
		header[jetstream.ExpectedStreamHeader] = []string{events.DefaultStream}
		messages = append(messages, &nats.Msg{Subject: e.Subject(events.DefaultPrefix, event.Transition), Header: header, Data: data})
	}
	return messages
}

func condition(m *nats.Msg, e events.Election, after uint64) {
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(after, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{e.Filter(events.DefaultPrefix)}
}
