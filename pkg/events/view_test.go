package events_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// The bucket is read with the plain key-value client, as in
// nats kv get leaderbridge_leaders default.prod.scheduler.
func TestBucketShowsTheLastEvent(t *testing.T) {
	for _, prefix := range []string{events.DefaultPrefix, "eu.west.lb"} {
		t.Run(prefix, func(t *testing.T) {
			s := natsenv.Start(t)
			log := openLog(t, s, events.Options{Prefix: prefix})
			kv, err := s.JetStream(t).KeyValue(t.Context(), events.DefaultBucket)
			if err != nil {
				t.Fatal(err)
			}
			watch, err := kv.Watch(t.Context(), "default.>")
			if err != nil {
				t.Fatal(err)
			}
			dotted := events.Election{Cluster: "default", Namespace: "prod", Lease: "a.b"}
			for epoch := uint64(1); epoch <= 2; epoch++ {
				for _, e := range []events.Election{scheduler, dotted} {
					if _, err := step(patient(t), log, e); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, key := range []string{"default.prod.scheduler", "default.prod.a_b"} {
				testenv.Eventually(t, patience, func() error { return shows(t, kv, key, "new-leader 2") })
				all, err := kv.History(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if len(all) != 1 {
					t.Errorf("history of %s: %d entries, want 1", key, len(all))
				}
			}
			seen := map[string]string{}
			for seen["default.prod.scheduler"] != "new-leader 2" || seen["default.prod.a_b"] != "new-leader 2" {
				select {
				case entry := <-watch.Updates():
					if entry != nil {
						seen[entry.Key()] = describe(t, entry)
					}
				case <-patient(t).Done():
					t.Fatalf("watch saw %v", seen)
				}
			}
			if err := watch.Stop(); err != nil {
				t.Error(err)
			}
			if _, err := kv.Put(t.Context(), "default.prod.scheduler", []byte("x")); err == nil {
				t.Error("somebody else can write to the bucket")
			}
		})
	}
}

func describe(t testing.TB, entry jetstream.KeyValueEntry) string {
	t.Helper()
	event, err := events.Decode(nil, entry.Value())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %d", event.Transition, event.Epoch)
}

func shows(t testing.TB, kv jetstream.KeyValue, key, want string) error {
	t.Helper()
	entry, err := kv.Get(patient(t), key)
	if err != nil {
		return err
	}
	if got := describe(t, entry); got != want {
		return fmt.Errorf("%s: %s, want %s", key, got, want)
	}
	return nil
}
