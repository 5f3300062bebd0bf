package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
)

// Start says where a follower begins.
type Start struct {
	kind startKind
	seq  uint64
	at   time.Time
}

type startKind int

const (
	fromLast startKind = iota
	fromSequence
	fromTime
	fromNow
)

// FromLast begins with the last event of each election, in the order of the
// log, and goes on with every event after them. It is the zero Start.
func FromLast() Start { return Start{} }

// FromSequence begins with the message at that sequence, or the first one after
// it that there is. FromSequence(1) is the whole log.
func FromSequence(seq uint64) Start { return Start{kind: fromSequence, seq: max(seq, 1)} }

// FromTime begins with the first message stored at or after that time.
func FromTime(at time.Time) Start { return Start{kind: fromTime, at: at} }

// FromNow begins with the first message stored after the follower has begun.
func FromNow() Start { return Start{kind: fromNow} }

// FollowOptions say what is followed, and from where. The zero value is every
// election, last state first.
type FollowOptions struct {
	// Filter restricts what is followed. Its empty parts match everything:
	// Election{Cluster: "eu"} is all elections of the cluster eu.
	Filter Election
	// From is where to begin.
	From Start
	// Heartbeat is how often the server says that there is nothing to say;
	// one second when zero, at least 100 ms. After two of them without a word
	// the feed counts as lost. Lower finds a lost feed sooner, at the cost of
	// one small message each time.
	Heartbeat time.Duration
	// OnState is told whenever the feed becomes current or uncertain, on the
	// goroutine of Follow and in order with the entries; nil for nobody.
	OnState func(FeedState)
}

// FeedState tells how much the entries delivered so far can be relied upon.
// A feed is uncertain until it is told otherwise.
type FeedState struct {
	// Current is true when every message that the log held, at a moment after
	// Follow or the feed's last interruption began, has been delivered.
	Current bool
	// Err is why the feed is uncertain: entries may be missing that others
	// have seen already. Follow goes on trying. It matches one of the
	// package's sentinels, or ErrFeedSilent or ErrLogRewound.
	Err error
}

var (
	// ErrFeedSilent reports that the server sends neither entries nor
	// heartbeats, or that the connection is gone.
	ErrFeedSilent = errors.New("the feed is silent")
	// ErrLogRewound reports that the log was made anew or went back to an
	// older state. With [FromLast] the last state of each election is
	// delivered again, otherwise all that the log holds now; sequences may be
	// lower than before.
	ErrLogRewound = errors.New("the log has lost its end")
)

// errFeedGap ends a feed that has skipped a message on its way.
var errFeedGap = fmt.Errorf("%w: a message was lost on its way", ErrFeedSilent)

const (
	defaultHeartbeat = time.Second
	leastHeartbeat   = 100 * time.Millisecond
	// After an interruption a feed waits up to firstBackoff before it begins
	// anew, so that many followers do not ask all at once; then longer.
	firstBackoff = 100 * time.Millisecond
	mostBackoff  = 5 * time.Second
)

// Follow calls handle with every entry of the log, one at a time and in the
// order of the log: each once, none left out. It rebuilds its feed from the
// entry after the last one delivered whenever the connection, a server or the
// consumer is lost, and says through OnState that it may be behind meanwhile.
//
// Messages that are no events are delivered with Err set. What retention has
// removed from the log before it could be delivered is marked by Gap on the
// next entry.
//
// With [FromLast], messages that are no events do not hide the last event: it
// is delivered before them.
//
// Follow returns handle's error, the cause of ctx's end, or an error when the
// connection is closed for good. A log that is absent, unreachable or forbidden
// does not end it.
func (l *Log) Follow(ctx context.Context, opts FollowOptions, handle func(Entry) error) error {
	f, err := l.newFollower(opts, handle)
	if err != nil {
		return fmt.Errorf("follow the log %s: %w", l.opts.Stream, err)
	}
	if err := f.run(ctx); err != nil {
		return fmt.Errorf("follow the log %s: %w", l.opts.Stream, err)
	}
	return nil
}

func (l *Log) newFollower(opts FollowOptions, handle func(Entry) error) (*follower, error) {
	filter, err := l.opts.followSubject(opts.Filter)
	if err != nil {
		return nil, err
	}
	switch {
	case opts.Heartbeat == 0:
		opts.Heartbeat = defaultHeartbeat
	case opts.Heartbeat < leastHeartbeat:
		return nil, fmt.Errorf("heartbeat of %s is too short: at least %s", opts.Heartbeat, leastHeartbeat)
	}
	if opts.OnState == nil {
		opts.OnState = func(FeedState) {}
	}
	return &follower{log: l, filter: filter, opts: opts, handle: handle, position: position{start: opts.From}}, nil
}

// followSubject is the subject filter for elections whose empty parts match
// everything.
func (o Options) followSubject(e Election) (string, error) {
	for _, part := range []struct {
		what, name string
		validate   func(string, string) error
	}{
		{"cluster", e.Cluster, validateLabel}, {"namespace", e.Namespace, validateLabel}, {"lease", e.Lease, validateSubdomain},
	} {
		if part.name == "" {
			continue
		}
		if err := part.validate(part.what, part.name); err != nil {
			return "", err
		}
	}
	wild := func(name string) string {
		if name == "" {
			return "*"
		}
		return name
	}
	return Election{Cluster: wild(e.Cluster), Namespace: wild(e.Namespace), Lease: wild(e.Lease)}.Filter(o.Prefix), nil
}

// follower is the state of one Follow, owned by its goroutine.
type follower struct {
	log      *Log
	filter   string
	opts     FollowOptions
	handle   func(Entry) error
	position position
	// state is what OnState was told last.
	state FeedState
	// failures counts the feeds in a row that ended before they were current.
	failures int
}

// handlerError is an error of the caller's function, which ends Follow.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

func (f *follower) run(ctx context.Context) error {
	for {
		err := f.feed(ctx)
		var own handlerError
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		f.uncertain(err)
		if err := f.pause(ctx); err != nil {
			return err
		}
	}
}

// current and uncertain tell the caller what it has not been told yet.

func (f *follower) current() {
	f.failures = 0
	if !f.state.Current {
		f.state = FeedState{Current: true}
		f.opts.OnState(f.state)
	}
}

func (f *follower) uncertain(err error) {
	if !f.state.Current && f.state.Err != nil && f.state.Err.Error() == err.Error() {
		return
	}
	f.state = FeedState{Err: err}
	f.opts.OnState(f.state)
}

// pause waits until there is a connection, and then a random time that grows
// with the failures in a row.
func (f *follower) pause(ctx context.Context) error {
	nc := f.log.nc
	status := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(status)
	for !nc.IsConnected() {
		if nc.IsClosed() {
			return fmt.Errorf("%w: %w", ErrUnavailable, nats.ErrConnectionClosed)
		}
		select {
		case <-status:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	timer := time.NewTimer(pauseAfter(f.failures))
	defer timer.Stop()
	f.failures++
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func pauseAfter(failures int) time.Duration {
	limit := mostBackoff
	if failures < 6 {
		limit = min(firstBackoff<<failures, mostBackoff)
	}
	if failures == 0 {
		return rand.N(limit) // #nosec G404 -- it only spreads load
	}
	return limit/2 + rand.N(limit/2) // #nosec G404
}
