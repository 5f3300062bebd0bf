package deploy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// read returns what the log says about an election, from its beginning.
func read(t *testing.T, nc *nats.Conn, e events.Election) []events.Event {
	t.Helper()
	log, err := events.Open(t.Context(), nc, events.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var all []events.Event
	current := errors.New("all is read")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	limit := time.AfterFunc(20*time.Second, func() { cancel(errors.New("the log was not read in time")) })
	defer limit.Stop()
	err = log.Follow(ctx, events.FollowOptions{Filter: e, From: events.FromSequence(1), OnState: func(s events.FeedState) {
		if s.Current {
			cancel(current)
		}
	}}, func(entry events.Entry) error {
		if entry.Err != nil {
			return entry.Err
		}
		all = append(all, entry.Event)
		return nil
	})
	if !errors.Is(err, current) {
		t.Fatalf("read the log of %s: %v", e, err)
	}
	return all
}
