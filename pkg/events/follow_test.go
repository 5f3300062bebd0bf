package events_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// follower collects what Follow delivers: entries as "<lease> <transition>
// <epoch>", states as "current" or "uncertain".
type follower struct {
	mu      sync.Mutex
	all     []string
	entries []events.Entry
	states  []events.FeedState
}

// startFollower follows until the test ends.
func startFollower(t testing.TB, log *events.Log, opts events.FollowOptions) *follower {
	t.Helper()
	f := &follower{}
	opts.OnState = func(state events.FeedState) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.states = append(f.states, state)
		if state.Current {
			f.all = append(f.all, "current")
		} else {
			f.all = append(f.all, "uncertain")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- log.Follow(ctx, opts, func(entry events.Entry) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.entries = append(f.entries, entry)
			f.all = append(f.all, show(entry))
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("follow: %v, want the context's end", err)
		}
	})
	return f
}

func show(entry events.Entry) string {
	text := fmt.Sprintf("%s %s %d", entry.Event.Election.Lease, entry.Event.Transition, entry.Event.Epoch)
	if entry.Err != nil {
		text = "foreign"
	}
	if entry.Gap {
		text += " after a gap"
	}
	return text
}

func (f *follower) snapshot() (all []string, entries []events.Entry, states []events.FeedState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all), slices.Clone(f.entries), slices.Clone(f.states)
}

// wants waits until exactly these were delivered.
func (f *follower) wants(t testing.TB, want ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		all, _, states := f.snapshot()
		if !slices.Equal(all, want) {
			return fmt.Errorf("delivered %q with states %v, want %q", all, states, want)
		}
		return nil
	})
}

// wantsEntries waits until exactly these entries were delivered, whatever states
// the feed went through.
func (f *follower) wantsEntries(t testing.TB, want ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		all, _, _ := f.snapshot()
		if got := slices.DeleteFunc(slices.Clone(all), isState); !slices.Equal(got, want) {
			return fmt.Errorf("delivered %q, want entries %q", all, want)
		}
		return nil
	})
}

// becomes waits until the feed is current, or uncertain because of an error.
func (f *follower) becomes(t testing.TB, reason error) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		_, _, states := f.snapshot()
		if len(states) == 0 {
			return errors.New("no state")
		}
		if last := states[len(states)-1]; last.Current != (reason == nil) || !errors.Is(last.Err, reason) {
			return fmt.Errorf("state %+v, want %w", last, reason)
		}
		return nil
	})
}

func lease(name string) events.Election {
	return events.Election{Cluster: "default", Namespace: "prod", Lease: name}
}

// handOver appends terms to an election, from where its log ends.
func handOver(t testing.TB, log *events.Log, e events.Election, terms int) {
	t.Helper()
	for range terms {
		if _, err := step(patient(t), log, e); err != nil {
			t.Fatal(err)
		}
	}
}

// publish stores what no log wrote.
func publish(t testing.TB, js jetstream.JetStream, subject, data string) {
	t.Helper()
	if _, err := js.Publish(patient(t), subject, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func TestFollowLastStateFirstThenLive(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{})
	eu := events.Election{Cluster: "eu", Namespace: "prod", Lease: "d"}
	handOver(t, log, lease("b"), 2)
	handOver(t, log, lease("a.x"), 3)
	handOver(t, log, eu, 1)
	handOver(t, log, lease("b"), 1)
	if _, err := log.Append(patient(t), lease("c"), 0, term(lease("c"), 1)[:1]...); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filter events.Election
		want   []string
	}{
		{events.Election{}, []string{"a.x new-leader 3", "d new-leader 1", "b new-leader 3", "c became-leader 1"}},
		{events.Election{Cluster: "default"}, []string{"a.x new-leader 3", "b new-leader 3", "c became-leader 1"}},
		{events.Election{Namespace: "prod"}, []string{"a.x new-leader 3", "d new-leader 1", "b new-leader 3", "c became-leader 1"}},
		{lease("a.x"), []string{"a.x new-leader 3"}},
		{lease("nobody"), nil},
	} {
		t.Run(test.filter.KVKey(), func(t *testing.T) {
			f := startFollower(t, log, events.FollowOptions{Filter: test.filter})
			f.wants(t, append(test.want, "current")...)
		})
	}
	t.Run("live", func(t *testing.T) {
		f := startFollower(t, log, events.FollowOptions{Filter: lease("b")})
		f.wants(t, "b new-leader 3", "current")
		handOver(t, log, lease("b"), 1)
		handOver(t, log, eu, 1)
		f.wants(t, "b new-leader 3", "current", "b stopped-leading 3", "b became-leader 4", "b new-leader 4")
	})
}

func TestFollowFrom(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{ContentMode: events.Binary})
	handOver(t, log, lease("a"), 2)
	before := startFollower(t, log, events.FollowOptions{From: events.FromSequence(1)})
	before.wants(t, "a became-leader 1", "a new-leader 1", "a stopped-leading 1", "a became-leader 2", "a new-leader 2", "current")
	_, entries, _ := before.snapshot()
	for _, test := range []struct {
		name string
		from events.Start
		want []string
	}{
		{"sequence", events.FromSequence(4), []string{"a became-leader 2", "a new-leader 2", "current"}},
		{"a sequence to come", events.FromSequence(7), []string{"current"}},
		{"time", events.FromTime(entries[3].Stored), []string{"a became-leader 2", "a new-leader 2", "current"}},
		{"a time to come", events.FromTime(time.Now().Add(time.Hour)), []string{"current"}},
		{"now", events.FromNow(), []string{"current"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			startFollower(t, log, events.FollowOptions{From: test.from}).wants(t, test.want...)
		})
	}
	now := startFollower(t, log, events.FollowOptions{From: events.FromNow()})
	now.wants(t, "current")
	handOver(t, log, lease("a"), 1)
	now.wants(t, "current", "a stopped-leading 2", "a became-leader 3", "a new-leader 3")
}

// Whoever may publish on an election's subjects can write nonsense there. It
// is shown, but neither hides the state nor stops the log.
func TestForeignMessages(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	log := openLog(t, s, events.Options{})
	a, b := lease("a"), lease("b")
	handOver(t, log, a, 2)
	// Nonsense on every subject, so that each hides the events under it; an
	// event of another election; and a kind that nobody knows.
	header, data, err := events.Encode(term(b, 7)[2], events.Structured)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []events.Transition{events.StoppedLeading, events.BecameLeader} {
		publish(t, js, a.Subject(events.DefaultPrefix, kind), "nonsense")
	}
	publish(t, js, a.Subject(events.DefaultPrefix, "crowned"), "{}")
	if _, err := js.PublishMsg(patient(t), &nats.Msg{Subject: a.Subject(events.DefaultPrefix, events.NewLeader), Header: header, Data: data}); err != nil {
		t.Fatal(err)
	}
	tail, err := log.Tail(patient(t), a)
	if err != nil {
		t.Fatal(err)
	}
	if tail.Seq != 9 || tail.Last.ID() != term(a, 2)[2].ID() {
		t.Errorf("tail: %d %s, want 9 and the second term's last event", tail.Seq, tail.Last.ID())
	}
	startFollower(t, log, events.FollowOptions{Filter: a}).wants(t, "a new-leader 2", "foreign", "current")
	handOver(t, log, a, 1)
	startFollower(t, log, events.FollowOptions{Filter: a}).wants(t, "a new-leader 3", "current")
	startFollower(t, log, events.FollowOptions{From: events.FromSequence(4)}).wants(t,
		"a became-leader 2", "a new-leader 2", "foreign", "foreign", "foreign", "foreign",
		"a stopped-leading 2", "a became-leader 3", "a new-leader 3", "current")

	publish(t, js, b.Subject(events.DefaultPrefix, events.BecameLeader), "nonsense")
	if tail, err = log.Tail(patient(t), b); err != nil || tail.Seq != 13 || tail.Last.Epoch != 0 {
		t.Errorf("tail of nothing but nonsense: %+v, %v", tail, err)
	}
}

// isWhole checks that every sequence was delivered once, in order.
func (f *follower) isWhole(last uint64) error {
	_, entries, _ := f.snapshot()
	for i, entry := range entries {
		if want := uint64(i) + 1; entry.Seq != want || entry.Gap {
			return fmt.Errorf("entry %d: sequence %d, gap %t", want, entry.Seq, entry.Gap)
		}
	}
	if uint64(len(entries)) != last {
		return fmt.Errorf("%d entries, want %d", len(entries), last)
	}
	return nil
}

// appendUntil appends terms in the background until stop is called, whatever
// happens to the server, and returns the end of the log.
func appendUntil(t testing.TB, log *events.Log, e events.Election) (stop func() uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := tryStep(log, e); err != nil && !passes(err) {
				t.Error(err)
				return
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() uint64 {
		cancel()
		wg.Wait()
		var last uint64
		testenv.Eventually(t, patience, func() error {
			tail, err := log.Tail(t.Context(), e)
			last = tail.Seq
			return err
		})
		return last
	}
}

func tryStep(log *events.Log, e events.Election) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := step(ctx, log, e)
	return err
}

// passes holds for errors that a retry gets over.
func passes(err error) bool {
	for _, e := range []error{events.ErrBehind, events.ErrOutcomeUnknown, events.ErrUnavailable, events.ErrNoJetStream} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Interruptions of every kind, while events are appended: cases 58 and 59.
func TestFollowIsWhole(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{})
	conn := s.Connect(t)
	reader, err := events.Open(t.Context(), conn, events.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	f := startFollower(t, reader, events.FollowOptions{From: events.FromSequence(1), Heartbeat: 200 * time.Millisecond})
	stop := appendUntil(t, log, lease("a"))
	js := s.JetStream(t)
	grows := func() {
		t.Helper()
		_, before, _ := f.snapshot()
		testenv.Eventually(t, patience, func() error {
			if _, now, states := f.snapshot(); len(now) < len(before)+10 {
				return fmt.Errorf("%d entries, had %d, states %v", len(now), len(before), states)
			}
			return nil
		})
		f.becomes(t, nil)
	}
	for range 3 {
		grows()
		t.Log("lose the connection")
		if err := conn.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		grows()
		t.Log("lose the consumer")
		for name := range consumers(t, js) {
			if err := js.DeleteConsumer(patient(t), events.DefaultStream, name); err != nil {
				t.Fatal(err)
			}
		}
		f.becomes(t, events.ErrFeedSilent)
		grows()
		t.Log("lose the server")
		s.Restart(t)
		grows()
	}
	last := stop()
	testenv.Eventually(t, patience, func() error { return f.isWhole(last) })
	t.Logf("%d entries, %d changes of state", last, len(f.states))
}

// consumers lists the consumers of followers. The bucket has one of its own,
// which does not show.
func consumers(t testing.TB, js jetstream.JetStream) map[string]bool {
	t.Helper()
	stream, err := js.Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	lister := stream.ConsumerNames(patient(t))
	for name := range lister.Name() {
		names[name] = true
	}
	if err := lister.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// Case 60: many followers come back at once, and leave no consumers behind.
func TestFollowersComeBackWithoutLeaks(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{})
	handOver(t, log, lease("a"), 1)
	js := s.JetStream(t)
	without := len(consumers(t, js))
	const followers = 60
	var all []*follower
	var conns []*nats.Conn
	for range followers {
		conn := s.Connect(t)
		reader, err := events.Open(t.Context(), conn, events.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		conns, all = append(conns, conn), append(all, startFollower(t, reader, events.FollowOptions{}))
	}
	for _, f := range all {
		f.becomes(t, nil)
	}
	for _, conn := range conns {
		if err := conn.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range all {
		f.wantsEntries(t, "a new-leader 1")
		testenv.Eventually(t, patience, func() error {
			if _, _, states := f.snapshot(); len(states) < 3 || !states[len(states)-1].Current {
				return fmt.Errorf("states %v, want lost and current again", states)
			}
			return nil
		})
	}
	testenv.Eventually(t, patience, func() error {
		if n := len(consumers(t, js)) - without; n != followers {
			return fmt.Errorf("%d consumers for %d followers", n, followers)
		}
		return nil
	})
}

func TestFollowReportsWhatIsMissing(t *testing.T) {
	s := natsenv.Start(t)
	reader := openLog(t, s, events.Options{ReadOnly: true})
	f := startFollower(t, reader, events.FollowOptions{Heartbeat: 100 * time.Millisecond})
	f.becomes(t, events.ErrNoStream)
	// One word about it, not one for every attempt.
	testenv.Always(t, 500*time.Millisecond, func() error {
		if _, _, states := f.snapshot(); len(states) != 1 {
			return fmt.Errorf("states %v, want one", states)
		}
		return nil
	})
	log := openLog(t, s, events.Options{})
	handOver(t, log, lease("a"), 1)
	f.becomes(t, nil)
	s.Stop()
	f.becomes(t, events.ErrFeedSilent)
	s.Restart(t)
	f.becomes(t, nil)
}

// The stream is deleted under everybody. The log that is made anew goes on
// above the sequences that were seen, so that nothing waits or is lost.
func TestStreamDeletedUnderUs(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	log := openLog(t, s, events.Options{})
	handOver(t, log, lease("a"), 2)
	f := startFollower(t, log, events.FollowOptions{Heartbeat: 100 * time.Millisecond})
	f.wants(t, "a new-leader 2", "current")
	kv, err := js.KeyValue(patient(t), events.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() error { return shows(t, kv, "default.prod.a", "new-leader 2") })
	if err := js.DeleteStream(patient(t), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(patient(t), lease("a"), 5, term(lease("a"), 3)...); !errors.Is(err, events.ErrNoStream) {
		t.Fatalf("append to a deleted stream: %v, want ErrNoStream", err)
	}
	if _, err := log.Tail(patient(t), lease("a")); !errors.Is(err, events.ErrNoStream) {
		t.Fatalf("tail of a deleted stream: %v, want ErrNoStream", err)
	}
	f.becomes(t, events.ErrNoStream)
	if err := log.Ensure(patient(t)); err != nil {
		t.Fatal(err)
	}
	tail, err := log.Tail(patient(t), lease("a"))
	if err != nil || tail.Seq != 0 {
		t.Fatalf("tail of the new stream: %+v, %v", tail, err)
	}
	seq, err := log.Append(patient(t), lease("a"), 0, term(lease("a"), 3)...)
	if want := uint64(5 + events.Leap + 2); err != nil || seq != want {
		t.Fatalf("append to the new stream: sequence %d, %v, want %d", seq, err, want)
	}
	f.wantsEntries(t, "a new-leader 2", "a stopped-leading 2 after a gap", "a became-leader 3", "a new-leader 3")
	// The server looks at a source that has gone silent every ten seconds.
	testenv.Eventually(t, patience, func() error { return shows(t, kv, "default.prod.a", "new-leader 3") })
}

func isState(s string) bool { return s == "current" || s == "uncertain" }

// A server comes back without its files, and with it a log that begins anew.
func TestEmptyServerReturns(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{})
	handOver(t, log, lease("a"), 2)
	f := startFollower(t, log, events.FollowOptions{Heartbeat: 100 * time.Millisecond})
	f.wants(t, "a new-leader 2", "current")
	files := s.Embedded().StoreDir()
	s.Stop()
	if _, err := log.Append(patient(t), lease("a"), 5, term(lease("a"), 3)...); !errors.Is(err, events.ErrUnavailable) && !errors.Is(err, events.ErrOutcomeUnknown) {
		t.Fatalf("append without a server: %v, want ErrUnavailable", err)
	}
	if err := os.RemoveAll(files); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	testenv.Eventually(t, patience, func() error {
		if _, err := log.Tail(patient(t), lease("a")); !errors.Is(err, events.ErrNoStream) {
			return fmt.Errorf("tail on an empty server: %w, want ErrNoStream", err)
		}
		return nil
	})
	if err := log.Ensure(patient(t)); err != nil {
		t.Fatal(err)
	}
	seq, err := log.Append(patient(t), lease("a"), 0, term(lease("a"), 3)...)
	if want := uint64(5 + events.Leap + 2); err != nil || seq != want {
		t.Fatalf("append to the new stream: sequence %d, %v, want %d", seq, err, want)
	}
	f.becomes(t, nil)
	f.wantsEntries(t, "a new-leader 2", "a stopped-leading 2 after a gap", "a became-leader 3", "a new-leader 3")
	kv, err := s.JetStream(t).KeyValue(patient(t), events.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() error { return shows(t, kv, "default.prod.a", "new-leader 3") })
}

// Somebody makes the stream anew by hand, so that sequences begin at one again.
// Followers are told, and the bucket is repaired.
func TestLogRewound(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	log := openLog(t, s, events.Options{})
	handOver(t, log, lease("a"), 4)
	state := startFollower(t, log, events.FollowOptions{Heartbeat: 100 * time.Millisecond})
	state.wants(t, "a new-leader 4", "current")
	whole := startFollower(t, log, events.FollowOptions{Heartbeat: 100 * time.Millisecond, From: events.FromSequence(10)})
	whole.wants(t, "a became-leader 4", "a new-leader 4", "current")
	kv, err := js.KeyValue(patient(t), events.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() error { return shows(t, kv, "default.prod.a", "new-leader 4") })
	if err := js.DeleteStream(patient(t), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	makePlainStream(t, js, func(*jetstream.StreamConfig) {})
	if _, err := log.Append(patient(t), lease("a"), 11, term(lease("a"), 5)...); !errors.Is(err, events.ErrBehind) {
		t.Fatalf("append with an old tail: %v, want ErrBehind", err)
	}
	handOver(t, log, lease("a"), 1)
	for _, f := range []*follower{state, whole} {
		testenv.Eventually(t, patience, func() error {
			_, _, states := f.snapshot()
			if !slices.ContainsFunc(states, func(s events.FeedState) bool { return errors.Is(s.Err, events.ErrLogRewound) }) {
				return fmt.Errorf("states %v, want ErrLogRewound", states)
			}
			return nil
		})
		f.becomes(t, nil)
	}
	whole.wantsEntries(t, "a became-leader 4", "a new-leader 4", "a became-leader 1", "a new-leader 1")
	testenv.Eventually(t, patience, func() error { return shows(t, kv, "default.prod.a", "new-leader 1") })
}

// A follower that is slow is not one that has lost its feed, and the server does
// not run ahead of it further than its flow control allows.
func TestSlowFollowerIsServedAll(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	log := openLog(t, s, events.Options{})
	const messages = 1500
	bulk := strings.Repeat("x", 4<<10)
	for i := range messages {
		if _, err := js.PublishAsync(lease("a").Subject(events.DefaultPrefix, events.NewLeader), []byte(bulk)); err != nil {
			t.Fatal(err)
		}
		if i%500 == 499 {
			<-js.PublishAsyncComplete()
		}
	}
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	const heartbeat = 400 * time.Millisecond
	got, lost := uint64(0), 0
	err := log.Follow(ctx, events.FollowOptions{
		From: events.FromSequence(1), Heartbeat: heartbeat,
		OnState: func(state events.FeedState) {
			if state.Err != nil {
				lost++
				t.Log(state.Err)
			} else {
				cancel()
			}
		},
	}, func(entry events.Entry) error {
		if got++; entry.Seq != got {
			return fmt.Errorf("sequence %d, want %d", entry.Seq, got)
		}
		if got%500 == 1 {
			<-time.After(3 * heartbeat)
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || got != messages {
		t.Errorf("%d of %d messages: %v", got, messages, err)
	}
	if lost > 0 {
		t.Errorf("the feed was taken for lost %d times", lost)
	}
}

// What retention removes before it is delivered is a gap, and said to be one.
func TestFollowTellsAGap(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{})
	handOver(t, log, lease("a"), 2)
	stream, err := s.JetStream(t).Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(patient(t), jetstream.WithPurgeSequence(5)); err != nil {
		t.Fatal(err)
	}
	startFollower(t, log, events.FollowOptions{From: events.FromSequence(2)}).wants(t, "a new-leader 2 after a gap", "current")
	startFollower(t, log, events.FollowOptions{From: events.FromSequence(1)}).wants(t, "a new-leader 2", "current")
}

func TestFollowEndsWithTheHandlersError(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{})
	handOver(t, log, lease("a"), 1)
	enough := errors.New("enough")
	for _, from := range []events.Start{events.FromLast(), events.FromSequence(1)} {
		if err := log.Follow(patient(t), events.FollowOptions{From: from}, func(events.Entry) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("follow: %v, want the handler's error", err)
		}
	}
}

// Case 69: a connection that is closed for good ends the follower, aloud.
func TestFollowEndsWithTheConnection(t *testing.T) {
	s := natsenv.Start(t)
	openLog(t, s, events.Options{})
	conn := s.Connect(t, nats.NoReconnect())
	log, err := events.Open(t.Context(), conn, events.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- log.Follow(patient(t), events.FollowOptions{}, func(events.Entry) error { return nil })
	}()
	s.Stop()
	if err := <-done; !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("follow: %v, want a closed connection", err)
	}
}

func TestFollowRefusesBadOptions(t *testing.T) {
	s := natsenv.Start(t)
	log := openLog(t, s, events.Options{ReadOnly: true})
	for _, opts := range []events.FollowOptions{
		{Heartbeat: time.Millisecond},
		{Heartbeat: -time.Second},
		{Filter: events.Election{Cluster: "*"}},
		{Filter: events.Election{Namespace: "a.b"}},
		{Filter: events.Election{Lease: ">"}},
	} {
		if err := log.Follow(t.Context(), opts, nil); err == nil {
			t.Errorf("follow with %+v: no error", opts)
		}
	}
}
