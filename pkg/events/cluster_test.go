package events_test

import (
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

func openOnCluster(t testing.TB, c *natsenv.Cluster, opts events.Options) *events.Log {
	t.Helper()
	log, err := events.Open(patient(t), c.Connect(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// A cluster of three, by default: three replicas, steps as atomic batches; many
// replicas race, the stream's leader is lost, and the log stays exact and is
// followed without a gap.
func TestClusterLosesTheStreamsLeader(t *testing.T) {
	c := natsenv.StartCluster(t)
	js := c.JetStream(t)
	log := openOnCluster(t, c, events.Options{})
	if !log.Atomic() {
		t.Error("the log of a cluster is not atomic")
	}
	stream, err := js.Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
	f := startFollower(t, openOnCluster(t, c, events.Options{ReadOnly: true}), events.FollowOptions{
		From: events.FromSequence(1), Heartbeat: 300 * time.Millisecond,
	})
	var stops []func() uint64
	for range 4 {
		stops = append(stops, appendUntil(t, openOnCluster(t, c, events.Options{}), scheduler))
	}
	grows := func() {
		t.Helper()
		_, before, _ := f.snapshot()
		testenv.Eventually(t, patience, func() error {
			if _, now, states := f.snapshot(); len(now) < len(before)+12 {
				return fmt.Errorf("%d entries, had %d, states %v", len(now), len(before), states)
			}
			return nil
		})
	}
	for range 2 {
		grows()
		leader := c.StreamLeader(t, events.DefaultStream)
		c.Stop(leader)
		grows()
		c.Restart(t, leader)
		grows()
	}
	var last uint64
	for _, stop := range stops {
		last = max(last, stop())
	}
	testenv.Eventually(t, patience, func() error { return f.isWhole(last) })
	// The server that answers may still be catching up.
	var all []events.Event
	testenv.Eventually(t, patience, func() error {
		if all = history(t, js, scheduler); uint64(len(all)) != last {
			return fmt.Errorf("%d events up to sequence %d", len(all), last)
		}
		return nil
	})
	if err := exact(all); err != nil {
		t.Error(err)
	}
	f.becomes(t, nil)
	var kv jetstream.KeyValue
	testenv.Eventually(t, patience, func() (err error) {
		kv, err = js.KeyValue(patient(t), events.DefaultBucket)
		return err
	})
	end := all[len(all)-1]
	testenv.Eventually(t, patience, func() error {
		return shows(t, kv, scheduler.KVKey(), fmt.Sprintf("%s %d", end.Transition, end.Epoch))
	})
	t.Logf("%d events through two losses of the leader", last)
}

// Hundreds of elections change hands at once, over one connection, as batches: by
// many writers, and then by one that appends for all of them.
func TestClusterManyElectionsAtOnce(t *testing.T) {
	c := natsenv.StartCluster(t)
	log := openOnCluster(t, c, events.Options{})
	ctx := patient(t)
	const elections = 120
	var wg sync.WaitGroup
	all := make([]events.Addition, elections)
	for i := range all {
		e := events.Election{Cluster: "default", Namespace: "many", Lease: fmt.Sprintf("lease-%d", i)}
		all[i] = events.Addition{Election: e, Events: term(e, 3)}
		wg.Go(func() {
			for range 2 {
				// The stream takes in 50 batches at a time, for everybody.
				for {
					_, err := step(ctx, log, e)
					if err == nil {
						break
					}
					if !errors.Is(err, events.ErrUnavailable) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range all {
		tail, err := log.Tail(ctx, all[i].Election)
		if err != nil {
			t.Fatal(err)
		}
		all[i].After = tail.Seq
	}
	for i, o := range appendEach(t, log, all) {
		if o.err != nil || o.times != 1 {
			t.Errorf("lease-%d: %+v", i, o)
		}
	}
	stream, err := c.JetStream(t).Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := stream.CachedInfo().State.Msgs, uint64(elections*8); got != want {
		t.Errorf("%d messages, want %d", got, want)
	}
}

// Two of three servers are gone: the stream has no leader. Nothing is stored,
// nothing is lost, and it works again by itself.
func TestClusterWithoutAQuorum(t *testing.T) {
	c := natsenv.StartCluster(t)
	log := openOnCluster(t, c, events.Options{})
	handOver(t, log, scheduler, 1)
	c.Stop(0)
	c.Stop(1)
	testenv.Eventually(t, patience, func() error {
		err := tryStep(log, scheduler)
		if err == nil {
			t.Error("an append without a quorum was acknowledged")
		}
		if !errors.Is(err, events.ErrUnavailable) && !errors.Is(err, events.ErrNoJetStream) {
			return fmt.Errorf("append: %w, want ErrUnavailable", err)
		}
		t.Log(err)
		return nil
	})
	c.Server(0).Restart(t)
	c.Restart(t, 1)
	testenv.Eventually(t, patience, func() error { return tryStep(log, scheduler) })
	if err := exact(history(t, c.JetStream(t), scheduler)); err != nil {
		t.Error(err)
	}
}

// A cluster that cannot place three replicas is an error, and not a log without
// replicas for ever.
func TestClusterTooSmallForReplicas(t *testing.T) {
	c := natsenv.StartCluster(t)
	_, err := events.Open(patient(t), c.Connect(t), events.Options{Replicas: 5})
	oneLine(t, err, "create the stream LEADERBRIDGE", "ask for fewer replicas")
	log := openOnCluster(t, c, events.Options{Replicas: 1})
	if log.Atomic() {
		t.Error("a log without replicas stores steps as batches")
	}
	handOver(t, log, scheduler, 1)
}
