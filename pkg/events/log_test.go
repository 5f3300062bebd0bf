package events_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// patience bounds every wait. It is far above what a wait takes, since several
// test binaries share the machine.
const patience = time.Minute

// patient is the test's context with a deadline far away.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

var scheduler = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}

// openLog opens a log with a connection of its own.
func openLog(t testing.TB, s *natsenv.Server, opts events.Options) *events.Log {
	t.Helper()
	log, err := events.Open(t.Context(), s.Connect(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// openAtomic opens a log that stores steps as batches if it can, also on a
// single server.
func openAtomic(t testing.TB, s *natsenv.Server, atomic bool) *events.Log {
	t.Helper()
	log := openLog(t, s, events.Options{})
	events.SetAtomic(log, atomic)
	return log
}

// modes are the two ways in which a step is stored.
func modes(t *testing.T, test func(t *testing.T, atomic bool)) {
	for _, atomic := range []bool{true, false} {
		t.Run(fmt.Sprintf("atomic=%t", atomic), func(t *testing.T) { test(t, atomic) })
	}
}

// term returns the three events of one hand-over: the end of term epoch-1 and
// the beginning of term epoch.
func term(e events.Election, epoch uint64) []events.Event {
	at := time.Date(2026, 5, 1, 12, 0, int(epoch%60), 0, time.UTC)
	who := func(epoch uint64) string { return fmt.Sprintf("pod_%d", epoch) }
	base := events.Event{
		Election: e, UID: "uid-of-" + e.Lease, Time: at, Reporter: "tester", Perspective: events.ByWitness,
	}
	stopped, became, next := base, base, base
	stopped.Transition, stopped.Reason, stopped.Epoch = events.StoppedLeading, events.Released, epoch-1
	stopped.PreviousLeader = who(epoch - 1)
	became.Transition, became.Reason, became.Epoch, became.Leader = events.BecameLeader, events.Acquired, epoch, who(epoch)
	next.Transition, next.Reason, next.Epoch, next.Leader = events.NewLeader, events.Acquired, epoch, who(epoch)
	if epoch == 1 {
		return []events.Event{became, next}
	}
	return []events.Event{stopped, became, next}
}

// history reads the whole log of an election from the stream itself. It tries
// until it can: a cluster may still be finding its leaders.
func history(t testing.TB, js jetstream.JetStream, e events.Election) []events.Event {
	t.Helper()
	var all []events.Event
	testenv.Eventually(t, patience, func() (err error) {
		all, err = tryHistory(t.Context(), js, e)
		return err
	})
	return all
}

func tryHistory(ctx context.Context, js jetstream.JetStream, e events.Election) ([]events.Event, error) {
	consumer, err := js.CreateConsumer(ctx, events.DefaultStream, jetstream.ConsumerConfig{
		FilterSubject: e.Filter(events.DefaultPrefix), AckPolicy: jetstream.AckNonePolicy,
	})
	if err != nil {
		return nil, err
	}
	var all []events.Event
	for pending := consumer.CachedInfo().NumPending; pending > 0; {
		msg, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			return nil, err
		}
		event, err := events.Decode(msg.Headers(), msg.Data())
		if err != nil {
			return nil, err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return nil, err
		}
		all, pending = append(all, event), meta.NumPending
	}
	return all, nil
}

// exact checks the order of promise 1: stopped-leading(n), became-leader(n+1),
// new-leader(n+1), each once, beginning with term 1.
func exact(log []events.Event) error {
	var want []string
	for epoch := uint64(1); len(want) < len(log); epoch++ {
		for _, event := range term(scheduler, epoch) {
			want = append(want, fmt.Sprintf("%s %d", event.Transition, event.Epoch))
		}
	}
	for i, event := range log {
		if got := fmt.Sprintf("%s %d", event.Transition, event.Epoch); got != want[i] {
			return fmt.Errorf("event %d of %d: %s, want %s", i, len(log), got, want[i])
		}
	}
	return nil
}

// step appends what brings the log from its tail to the next term, as the
// recorder does: the epoch comes from the tail, and only an append that was
// made counts.
func step(ctx context.Context, log *events.Log, e events.Election) (epoch uint64, err error) {
	tail, err := log.Tail(ctx, e)
	if err != nil {
		return 0, err
	}
	all := term(e, tail.Last.Epoch+1)
	// An append in several parts may have been cut short by a rival.
	switch tail.Last.Transition {
	case events.StoppedLeading:
		all = term(e, tail.Last.Epoch+1)[1:]
	case events.BecameLeader:
		all = term(e, tail.Last.Epoch)
		all = all[len(all)-1:]
	case events.NewLeader:
	}
	_, err = log.Append(ctx, e, tail.Seq, all...)
	return all[len(all)-1].Epoch, err
}

func TestAppendAndTail(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		log := openAtomic(t, s, atomic)
		if tail, err := log.Tail(t.Context(), scheduler); err != nil || tail.Seq != 0 {
			t.Fatalf("tail of an empty log: %+v, %v", tail, err)
		}
		last := uint64(0)
		for epoch := uint64(1); epoch <= 3; epoch++ {
			all := term(scheduler, epoch)
			seq, err := log.Append(t.Context(), scheduler, last, all...)
			if err != nil {
				t.Fatal(err)
			}
			if want := last + uint64(len(all)); seq != want {
				t.Errorf("last sequence: %d, want %d", seq, want)
			}
			tail, err := log.Tail(t.Context(), scheduler)
			if err != nil {
				t.Fatal(err)
			}
			if tail.Seq != seq || tail.Last.ID() != all[len(all)-1].ID() {
				t.Errorf("tail: %d %s, want %d %s", tail.Seq, tail.Last.ID(), seq, all[len(all)-1].ID())
			}
			last = seq
		}
		if err := exact(history(t, s.JetStream(t), scheduler)); err != nil {
			t.Error(err)
		}
		// The same again, and something else on an old tail.
		for _, after := range []uint64{0, last - 1, last + 1} {
			if _, err := log.Append(t.Context(), scheduler, after, term(scheduler, 3)...); !errors.Is(err, events.ErrBehind) {
				t.Errorf("append of old events after %d: %v, want ErrBehind", after, err)
			}
			if _, err := log.Append(t.Context(), scheduler, after, term(scheduler, 4)...); !errors.Is(err, events.ErrBehind) {
				t.Errorf("append of new events after %d: %v, want ErrBehind", after, err)
			}
		}
		// Another election has a condition of its own.
		other := events.Election{Cluster: "default", Namespace: "prod", Lease: "a.b"}
		if _, err := log.Append(t.Context(), other, 0, term(other, 1)...); err != nil {
			t.Error(err)
		}
		if got := len(history(t, s.JetStream(t), scheduler)); got != 8 {
			t.Errorf("%d events, want 8", got)
		}
	})
}

// Many replicas append at once. Exactly one wins each step, and the log is
// exact, whichever way a step is stored.
func TestRace(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		js := s.JetStream(t)
		const replicas, terms = 8, 12
		ctx := patient(t)
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			wins = map[uint64]int{}
			lost int
		)
		for range replicas {
			log := openAtomic(t, s, atomic)
			wg.Go(func() {
				for {
					epoch, err := step(ctx, log, scheduler)
					mu.Lock()
					switch {
					case err == nil:
						wins[epoch]++
					case errors.Is(err, events.ErrBehind):
						lost++
					default:
						t.Error(err)
					}
					done := len(wins) >= terms || t.Failed()
					mu.Unlock()
					if done {
						return
					}
				}
			})
		}
		wg.Wait()
		all := history(t, js, scheduler)
		if err := exact(all); err != nil {
			t.Error(err)
		}
		for epoch, n := range wins {
			if n != 1 {
				t.Errorf("term %d was appended %d times", epoch, n)
			}
		}
		if lost == 0 {
			t.Error("nobody lost a race: the test has tested nothing")
		}
		t.Logf("%d events, %d races lost", len(all), lost)
	})
}

// Many elections share one connection and one log.
func TestManyElectionsAtOnce(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		s := natsenv.Start(t)
		log := openAtomic(t, s, atomic)
		var wg sync.WaitGroup
		elections := 120
		if atomic {
			// See [events.Log.Atomic].
			elections = 15
		}
		ctx := patient(t)
		for i := range elections {
			e := events.Election{Cluster: "default", Namespace: "many", Lease: fmt.Sprintf("lease-%d", i)}
			wg.Go(func() {
				for range 2 {
					if _, err := step(ctx, log, e); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		stream, err := s.JetStream(t).Stream(t.Context(), events.DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := stream.CachedInfo().State.Msgs, uint64(elections)*5; got != want {
			t.Errorf("%d messages, want %d", got, want)
		}
	})
}

// makePlainStream makes the log's stream as somebody does who knows what it is
// for and nothing more.
func makePlainStream(t testing.TB, js jetstream.JetStream, change func(*jetstream.StreamConfig)) {
	t.Helper()
	config := jetstream.StreamConfig{Name: events.DefaultStream, Subjects: []string{"leaderbridge.event.>"}}
	change(&config)
	if _, err := js.CreateStream(patient(t), config); err != nil {
		t.Fatal(err)
	}
}
