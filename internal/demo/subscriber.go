package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// arrival is an event as the subscriber got it.
type arrival struct {
	at    time.Time
	event events.Event
}

// follow reads the election's log from now on, until stop is called, and returns
// when nothing that comes can be missed. A plain subscription would also hear
// what a candidate tried to append and the log refused.
func (s *show) follow(ctx context.Context) (stop func(), err error) {
	log, err := events.Open(ctx, s.conn.Conn, s.logAt)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	current, ended := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(current) })
	var failed error
	go func() {
		defer close(ended)
		failed = log.Follow(ctx, events.FollowOptions{Filter: s.election, From: events.FromNow(), OnState: func(state events.FeedState) {
			if state.Current {
				begin()
			} else {
				s.opts.Logger.Warn("the log cannot be read now, trying on", "cause", state.Err)
			}
		}}, s.receive)
	}()
	stop = func() { cancel(); <-ended }
	select {
	case <-current:
		return stop, nil
	case <-ended:
		cancel()
		return nil, failed
	case <-time.After(limit):
		stop()
		return nil, errors.New("follow the log: nothing was heard within " + limit.String())
	}
}

// receive takes in an entry of the log.
func (s *show) receive(entry events.Entry) error {
	now := time.Now()
	switch {
	case entry.Err != nil:
		s.opts.Logger.Warn("a message in the log is no event", "error", entry.Err)
		return nil //nolint:nilerr // it is not the subscriber's error
	case s.opts.JSON:
		_, line, err := events.Encode(entry.Event, events.Structured)
		if err != nil {
			return err
		}
		s.timeline.printf("%s\n", line)
	default:
		s.timeline.event(now, entry.Event)
	}
	select {
	case s.arrivals <- arrival{at: now, event: entry.Event}:
	default: // nobody waits for it
	}
	return nil
}
