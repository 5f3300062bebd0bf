package natskv_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

var prodLock = natskv.Options{Namespace: "prod", Name: "lock"}

const bucketStream = "KV_" + natskv.DefaultBucket

func heldByA() election.Record {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return election.Record{Holder: "a", Duration: 15 * time.Second, Acquired: now, Renewed: now, HasTransitions: true}
}

func mustCreate(t *testing.T, l election.Lock) election.Observation {
	t.Helper()
	o, err := l.Create(t.Context(), heldByA())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func bucketInfo(t *testing.T, js jetstream.JetStream) *jetstream.StreamInfo {
	t.Helper()
	s, err := js.Stream(t.Context(), bucketStream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo()
}

func TestNamesAndOptionsAreChecked(t *testing.T) {
	js, err := jetstream.New(natsenv.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []natskv.Options{
		{Namespace: "", Name: "lock"},
		{Namespace: "prod", Name: ""},
		{Namespace: "a.b", Name: "lock"},
		{Namespace: "prod", Name: "a_b"},
		{Namespace: "prod", Name: "a.*"},
		{Namespace: "prod", Name: "lock", Bucket: "a.b"},
		{Namespace: "prod", Name: "lock", Replicas: 6},
		{Namespace: "prod", Name: "lock", Replicas: -1},
	} {
		if _, err := natskv.New(js, o); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	l, err := natskv.New(js, natskv.Options{Namespace: "prod", Name: "the.scheduler-2"})
	if err != nil {
		t.Fatal(err)
	}
	if l.String() != "NATS key leaderbridge_locks/prod.the_scheduler-2" {
		t.Errorf("the lock calls itself %q", l)
	}
}

// However many candidates begin at once, they end up with one bucket, and
// elections with similar names do not share a key.
func TestBucketIsMadeOnce(t *testing.T) {
	s := natsenv.Start(t)
	var wait sync.WaitGroup
	for i := range 16 {
		l := open(t, s.Connect(t), natskv.Options{Namespace: "prod", Name: fmt.Sprintf("lock.%d", i%8)})
		wait.Go(func() {
			o, err := l.Create(t.Context(), heldByA())
			if err == nil && o.Revision == 0 {
				t.Error("no revision")
			}
		})
	}
	wait.Wait()
	info := bucketInfo(t, s.JetStream(t))
	if info.Config.Replicas != 1 || info.State.NumSubjects != 8 {
		t.Errorf("%d keys, %d replicas", info.State.NumSubjects, info.Config.Replicas)
	}
	kv, err := s.JetStream(t).KeyValue(t.Context(), natskv.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := kv.Get(t.Context(), "prod.lock_3"); err != nil || !strings.Contains(string(entry.Value()), `"holderIdentity":"a"`) {
		t.Errorf("nats kv get: %v, %v", entry, err)
	}
}

// A bucket that vanished comes back with revisions above the old ones, so that
// no base from before can match.
func TestBucketThatVanishedComesBack(t *testing.T) {
	s := natsenv.Start(t)
	js := s.JetStream(t)
	a, b := open(t, s.Connect(t), prodLock), open(t, s.Connect(t), prodLock)
	before := mustCreate(t, a)
	watch, err := b.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), bucketStream); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, watch)
	if _, err := a.Update(t.Context(), before, heldByA()); err == nil {
		t.Fatal("a record in a bucket that is gone was updated")
	}
	if o, err := b.Read(t.Context()); err != nil || o.Exists {
		t.Fatalf("read %+v, %v", o, err)
	}
	after := mustCreate(t, b)
	if after.Revision <= before.Revision || after.UID == before.UID {
		t.Fatalf("before %+v\nafter  %+v", before, after)
	}
	if _, err := a.Update(t.Context(), before, heldByA()); !isConflict(err) {
		t.Fatalf("update of a base from before: %v", err)
	}
	if err := js.DeleteStream(t.Context(), bucketStream); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Watch(t.Context()); err != nil {
		t.Errorf("watch after the bucket vanished: %v", err)
	}
}

func waitClosed(t *testing.T, watch <-chan election.Observation) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case _, open := <-watch:
			if !open {
				return
			}
		case <-timeout:
			t.Fatal("the watch is still open")
		}
	}
}

func TestUnfitBucketIsNamedAndLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*jetstream.StreamConfig)
		want  natskv.Options
		says  string
	}{
		"time to live": {spoil: func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, says: "records expire after 1h0m0s"},
		"memory":       {spoil: func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, says: "storage is Memory"},
		"subjects":     {spoil: func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "x.>") }, says: "subjects are"},
		"work queue":   {spoil: func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, says: "retention is WorkQueue"},
		"makes room": {spoil: func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 },
			says: "old records make room"},
		"no ack": {spoil: func(c *jetstream.StreamConfig) { c.NoAck = true }, says: "not acknowledged"},
		"renames": {spoil: func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "x.>"}
		}, says: "renames"},
		"sourced":     {spoil: func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "other"}} }, says: "fed from another"},
		"replicas":    {spoil: func(*jetstream.StreamConfig) {}, want: natskv.Options{Replicas: 3}, says: "1 replicas, not 3"},
		"two at once": {spoil: func(c *jetstream.StreamConfig) { c.MaxAge, c.NoAck = time.Hour, true }, says: "expire after 1h0m0s: use no time to live; writes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := natsenv.Start(t)
			js := s.JetStream(t)
			config := jetstream.StreamConfig{
				Name: bucketStream, Subjects: []string{"$KV." + natskv.DefaultBucket + ".>"}, MaxMsgsPerSubject: 1,
				AllowRollup: true, Discard: jetstream.DiscardNew, AllowDirect: true,
			}
			tc.spoil(&config)
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			before := bucketInfo(t, js).Config
			tc.want.Namespace, tc.want.Name = "prod", "lock"
			l := open(t, s.Connect(t), tc.want)
			for range 2 {
				for verb, err := range requestErrors(t, l) {
					oneLine(t, err, verb, "bucket leaderbridge_locks does not fit and is left alone", tc.says)
				}
			}
			if after := bucketInfo(t, js).Config; !reflect.DeepEqual(after, before) {
				t.Errorf("the bucket was changed\nfrom %+v\nto   %+v", before, after)
			}
		})
	}
}

// A bucket that people made with "nats kv add" is good enough, with a replica
// that answers reads too.
func TestBucketOfOthersIsUsed(t *testing.T) {
	c := natsenv.StartCluster(t)
	js := c.JetStream(t)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: natskv.DefaultBucket, Replicas: 3, History: 5}); err != nil {
		t.Fatal(err)
	}
	before := bucketInfo(t, js).Config
	if !before.AllowDirect {
		t.Fatal("the bucket allows no direct gets, so the test tests nothing")
	}
	locks := make([]election.Lock, natsenv.Size)
	for i := range locks {
		locks[i] = open(t, c.Server(i).Connect(t), prodLock)
	}
	o := mustCreate(t, locks[0])
	var err error
	for i := range 200 {
		if o, err = locks[0].Update(t.Context(), o, heldByA()); err != nil {
			t.Fatal(err)
		}
		read, err := locks[i%len(locks)].Read(t.Context())
		if err != nil || read.Revision != o.Revision {
			t.Fatalf("wrote revision %d, then read %d, %v", o.Revision, read.Revision, err)
		}
	}
	if after := bucketInfo(t, js).Config; !reflect.DeepEqual(after, before) {
		t.Errorf("the bucket was changed\nfrom %+v\nto   %+v", before, after)
	}
}

// On a cluster the bucket is made with three replicas, and survives the loss
// of its leader without a word. Without a majority every request says so, and
// the lock goes on by itself when it is back.
func TestClusterLosesItsLeaderAndItsMajority(t *testing.T) {
	c := natsenv.StartCluster(t)
	l := open(t, c.Connect(t), prodLock)
	o := mustCreate(t, l)
	if n := bucketInfo(t, c.JetStream(t)).Config.Replicas; n != 3 {
		t.Fatalf("%d replicas in a cluster", n)
	}
	renew := func() error {
		ctx, cancel := withTimeout(t, 2*time.Second)
		defer cancel()
		next, err := l.Update(ctx, o, heldByA())
		if isConflict(err) {
			// An earlier one, whose answer was lost, may have been made.
			if read, readErr := l.Read(ctx); readErr == nil {
				o = read
			}
		}
		if err == nil {
			o = next
		}
		return err
	}
	first := c.StreamLeader(t, bucketStream)
	c.Stop(first)
	start := time.Now()
	testenv.Eventually(t, patience, renew)
	t.Logf("written %s after the leader was stopped", time.Since(start).Round(time.Millisecond))

	second := c.StreamLeader(t, bucketStream)
	c.Stop(second)
	testenv.Eventually(t, patience, func() error { // until the connection has moved and the leader has noticed
		ctx, cancel := withTimeout(t, 500*time.Millisecond)
		defer cancel()
		_, err := l.Update(ctx, o, heldByA())
		if err == nil || isConflict(err) || isRefused(err) || !strings.Contains(err.Error(), "bucket") {
			return fmt.Errorf("update without a majority: %w", err)
		}
		oneLine(t, err)
		return nil
	})
	for verb, err := range requestErrors(t, l) {
		oneLine(t, err, verb)
		if isRefused(err) || isConflict(err) {
			t.Errorf("%s without a majority: %v", verb, err)
		}
		t.Log(err)
	}
	c.Restart(t, first)
	c.Restart(t, second)
	testenv.Eventually(t, patience, renew)
}

func TestDomain(t *testing.T) {
	s := natsenv.Start(t, func(o *server.Options) { o.JetStreamDomain = "edge" })
	js, err := jetstream.NewWithDomain(s.Connect(t), "edge")
	if err != nil {
		t.Fatal(err)
	}
	l, err := natskv.New(js, prodLock)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := mustCreate(t, l)
	if seen := <-watch; seen.Revision != o.Revision {
		t.Errorf("watched %+v, want %+v", seen, o)
	}
	if read, err := l.Read(t.Context()); err != nil || read.Revision != o.Revision {
		t.Errorf("read %+v, %v", read, err)
	}
}
