package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// put is the one that docs/workers.md shows.
func put(ctx context.Context, kv jetstream.KeyValue, key string, epoch uint64, data json.RawMessage) error {
	type fenced struct {
		Epoch uint64
		Data  json.RawMessage
	}
	value, err := json.Marshal(fenced{epoch, data})
	if err != nil {
		return err
	}
	for {
		old, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			_, err = kv.Create(ctx, key, value)
		} else if err == nil {
			var last fenced
			if err := json.Unmarshal(old.Value(), &last); err != nil {
				return err
			}
			if epoch < last.Epoch {
				return &worker.StaleEpochError{Epoch: epoch, Seen: last.Epoch}
			}
			_, err = kv.Update(ctx, key, value, old.Revision())
		}
		if !errors.Is(err, jetstream.ErrKeyExists) { // somebody wrote between the two: look again
			return err
		}
	}
}

func TestTheKeyValueFenceOfTheGuide(t *testing.T) {
	js := natsenv.Start(t).JetStream(t)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "state"})
	if err != nil {
		t.Fatal(err)
	}
	write := func(epoch uint64, data string) error {
		return put(t.Context(), kv, "counter", epoch, json.RawMessage(data))
	}
	for _, w := range []struct {
		epoch uint64
		stale bool
	}{{7, false}, {7, false}, {8, false}, {7, true}, {8, false}} {
		err := write(w.epoch, "1")
		var stale *worker.StaleEpochError
		if errors.As(err, &stale) != w.stale || !w.stale && err != nil {
			t.Errorf("epoch %d: %v", w.epoch, err)
		}
	}
	// Old and new writers race: the old one never has the last word.
	const rounds = 50
	done := make(chan error, 2)
	for _, epoch := range []uint64{9, 10} {
		go func() {
			var err error
			for range rounds {
				var stale *worker.StaleEpochError
				if e := write(epoch, "2"); e != nil && !errors.As(e, &stale) {
					err = e
				}
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	w, err := kv.History(t.Context(), "counter")
	if err != nil {
		t.Fatal(err)
	}
	if last := string(w[len(w)-1].Value()); last != `{"Epoch":10,"Data":2}` {
		t.Errorf("the bucket holds %s", last)
	}
	if err := write(9, "3"); err == nil {
		t.Error("epoch 9 wrote after epoch 10")
	}
}
