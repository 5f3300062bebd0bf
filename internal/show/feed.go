package show

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// errEnough ends a feed that has delivered all that was wanted.
var errEnough = errors.New("enough")

// errStalled ends a feed that has delivered nothing for too long.
var errStalled = errors.New("nothing was heard")

// feed follows the log for as long as state and entry return nil. If patience
// is above zero, the feed also ends when it delivers nothing for so long.
// errEnough is a good end.
func feed(ctx context.Context, log *events.Log, opts events.FollowOptions, patience time.Duration,
	state func(events.FeedState) error, entry func(events.Entry) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := func() {}
	if patience > 0 {
		stalled := time.AfterFunc(patience, func() { cancel(fmt.Errorf("%w for %s", errStalled, patience)) })
		defer stalled.Stop()
		heard = func() { stalled.Reset(patience) }
	}
	var doubt error
	opts.OnState = func(s events.FeedState) {
		doubt = s.Err
		if err := state(s); err != nil {
			cancel(err)
		}
	}
	err := log.Follow(ctx, opts, func(e events.Entry) error {
		heard()
		return entry(e)
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, errStalled) && doubt != nil:
		return fmt.Errorf("%w: %w", err, doubt)
	default:
		return err
	}
}

// lasting are the troubles that waiting does not mend, but somebody may.
var lasting = []error{events.ErrNoStream, events.ErrNoJetStream, events.ErrForbidden, events.ErrRefused, events.ErrMisfit}

// hopeless returns the feed's error if a command that does not go on for ever
// should not wait either.
func hopeless(s events.FeedState) error {
	for _, trouble := range lasting {
		if errors.Is(s.Err, trouble) {
			return s.Err
		}
	}
	return nil
}

// brief is an error in as few words as say what to do about it.
func brief(err error) string {
	for _, trouble := range lasting {
		if errors.Is(err, trouble) && !errors.Is(err, events.ErrForbidden) {
			return trouble.Error()
		}
	}
	return err.Error()
}
