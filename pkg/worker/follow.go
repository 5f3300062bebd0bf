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
		r.tell(claim.Feed{Current: s.Current})
	}}
	err := r.log.Follow(r.life, opts, func(e events.Entry) error {
		if e.Err == nil {
			r.tell(logged{claim.Event{Epoch: e.Event.Epoch, Ended: e.Event.Transition == events.StoppedLeading}, e.Event.Leader})
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		r.lost <- err
	}
}

// logged is an event of the log and who leads after it.
type logged struct {
	claim.Event
	leader string
}

// note remembers what the log says. It is told to the claim as well.
func (r *run) note(in claim.Input) {
	switch in := in.(type) {
	case claim.Feed:
		r.current = in.Current
	case logged:
		r.epoch, r.leader = in.Epoch, in.leader
	}
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
