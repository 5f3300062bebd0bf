package logbook

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// openTimeout bounds one try to open the log.
const openTimeout = 5 * time.Second

// Follow keeps a recorder informed of what the log says about the elections
// that match the filter, until ctx ends. seen is told each event, or nil;
// state is told whether the log is
// followed without a gap: nil, or why not. It returns the cause of ctx's end,
// or an error when the connection is closed for good.
func (b *Book) Follow(ctx context.Context, filter events.Election, rec *events.Recorder, seen func(events.Event), state func(error)) error {
	l, err := b.open(ctx, state)
	if err != nil {
		return err
	}
	lost := false
	opts := events.FollowOptions{
		Filter: filter,
		OnState: func(s events.FeedState) {
			state(s.Err)
			// What was missed while the feed was away comes with its return;
			// what the log itself has lost does not. A log that is gone is
			// made anew by the recorder, which would not look while all is
			// quiet.
			if s.Current && lost || errors.Is(s.Err, events.ErrLogRewound) || errors.Is(s.Err, events.ErrNoStream) {
				rec.Recheck()
			}
			lost = !s.Current
		},
	}
	return l.Follow(ctx, opts, func(e events.Entry) error {
		if e.Err == nil {
			rec.Tailed(e.Event.Election, events.Tail{Seq: e.Seq, Last: e.Event})
			if seen != nil {
				seen(e.Event)
			}
		}
		return nil
	})
}

// open tries until the log can be opened.
func (b *Book) open(ctx context.Context, state func(error)) (*events.Log, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 5*time.Second
	return backoff.Retry(ctx, func() (*events.Log, error) {
		try, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		l, err := b.Log(try)
		if err != nil {
			state(err)
		}
		return l, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0))
}
