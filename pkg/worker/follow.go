package worker

import (
	"context"
	"errors"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/claim"
)

// follow reads the log until the run is over.
func (r *run) follow() {
	opts := events.FollowOptions{Filter: r.opts.Election, OnState: func(s events.FeedState) {
		if s.Err != nil {
			r.opts.Logger.Warn("the log is not followed now, the grant alone decides", "election", r.opts.Election.String(), "error", s.Err)
		}
		r.tell(heard{claim.Feed{Current: s.Current}, s.Err})
	}}
	err := r.log.Follow(r.life, opts, func(e events.Entry) error {
		if e.Err == nil {
			r.tell(logged{claim.Event{Epoch: e.Event.Epoch, Ended: e.Event.Transition == events.StoppedLeading}, e.Event})
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		r.lost <- err
	}
}

// logged is an event of the log, as a whole.
type logged struct {
	claim.Event
	event events.Event
}

// heard is the state of the feed, and what is wrong with it.
type heard struct {
	claim.Feed
	err error
}

// note remembers what the log says, and returns what of it the claim is to be
// told, with a function to be called when it has been dealt with.
func (r *run) note(in claim.Input) (rest claim.Input, dealt func()) {
	switch in := in.(type) {
	case heard:
		r.current, r.logErr = in.Current, in.err
		return in.Feed, func() {}
	case logged:
		r.epoch, r.leader = in.Epoch, in.event.Leader
		return in.Event, r.spans.take(in.event)
	}
	return in, func() {}
}

// A worker that follows a named holder gives itself grants of followValid each,
// while the log is followed without a gap and says that the holder leads.
const (
	followValid = 6 * time.Second
	followAgain = 100 * time.Millisecond
)

// askLog answers a request from what the log says.
func (r *run) askLog(seq uint64) {
	switch {
	case r.current && r.leader == r.opts.Follow:
		r.later(claim.Granted{Seq: seq, Epoch: r.epoch, Leader: r.leader, Valid: followValid})
	case !r.current:
		r.later(claim.Refused{Seq: seq, RetryAfter: followAgain})
	default:
		r.later(claim.Refused{Seq: seq})
	}
}
