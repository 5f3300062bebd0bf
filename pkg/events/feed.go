package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consumerLife is how long the server keeps a consumer whose follower has gone.
const consumerLife = 5 * time.Second

// feed is one consumer's life. It is an ordered consumer of our own, since a
// follower must be told what the client's own ones keep to themselves: when the
// feed is lost, and when it is current again.
type feed struct {
	*follower
	ctx   context.Context
	start Start
	// target is a sequence. When the feed has come that far it is current.
	target uint64
	// base is the first sequence that was free when the feed began.
	base uint64
	// snapshot holds the last message of each election, by the part of its
	// subject before the transition, until the target is reached; nil for a
	// feed that delivers each message.
	snapshot map[string]*message
	// complete is true once the target was reached.
	complete bool
	// consumed counts the messages that the consumer has sent.
	consumed uint64
	// silence fires when the server has not said a word for too long.
	silence *time.Timer
}

// feed runs one consumer until it is lost. It never returns nil.
func (f *follower) feed(ctx context.Context) error {
	nc := f.log.nc
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What was on its way when a connection broke is lost, whatever the
	// client does afterwards: begin anew.
	status := nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(status)
	go func() {
		select {
		case <-status:
			cancel(fmt.Errorf("%w: the connection to NATS was lost", ErrFeedSilent))
		case <-ctx.Done():
		}
	}()
	err := f.consume(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.As(err, new(handlerError)) {
		return cause
	}
	return err
}

func (f *follower) consume(ctx context.Context) error {
	if err := f.log.connected(); err != nil {
		return err
	}
	g, err := f.openFeed(ctx)
	if err != nil {
		return err
	}
	// The callback's goroutine only hands over, so that messages, heartbeats
	// and the end are awaited in one place.
	messages, done := make(chan *nats.Msg), make(chan struct{})
	inbox := f.log.nc.NewInbox()
	sub, err := f.log.nc.Subscribe(inbox, func(msg *nats.Msg) {
		select {
		case messages <- msg:
		case <-done:
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to a feed: %w: %w", ErrUnavailable, err)
	}
	defer func() {
		close(done)
		// It fails only if the connection is closed, and the subscription
		// with it. The server forgets a consumer that nobody listens to.
		_ = sub.Unsubscribe()
	}()
	if err := g.createConsumer(ctx, inbox); err != nil {
		return err
	}
	return g.loop(messages)
}

// openFeed decides where to begin. It asks the leader of the stream: the
// consumer may run on a server that is behind.
func (f *follower) openFeed(ctx context.Context) (*feed, error) {
	info, err := f.log.lookUp(ctx, f.log.opts.Stream)
	if err != nil {
		return nil, err
	}
	state := logState{first: info.State.FirstSeq, last: info.State.LastSeq, created: info.Created}
	if f.position.seen > 0 && f.position.seen <= state.last {
		msg, err := f.log.get(ctx, f.log.opts.Stream, msgGet{Seq: f.position.seen})
		if err != nil {
			return nil, err
		}
		state.other = msg != nil && !msg.stored.Equal(f.position.seenStored)
	}
	opening := f.position.open(state)
	if opening.doubtful && f.failures < doubts {
		return nil, fmt.Errorf("%w: the log ends at %d, and %d has been there already", ErrUnavailable, state.last, f.position.next-1)
	}
	if opening.rewound {
		f.uncertain(ErrLogRewound)
		f.position = position{start: opening.start}
	}
	if f.position.next == 0 {
		f.position.start = opening.start
	}
	f.position.created = state.created
	f.position.gap = f.position.gap || opening.gap
	g := &feed{follower: f, ctx: ctx, start: opening.start, base: state.last + 1}
	if g.start.kind == fromLast {
		g.snapshot = map[string]*message{}
	}
	target, err := f.log.get(ctx, f.log.opts.Stream, msgGet{LastBySubject: f.filter})
	switch {
	case err != nil:
		return nil, err
	case target != nil && !g.start.precedes(target):
		g.target = target.seq
	}
	return g, nil
}

// doubts is how often in a row a follower disbelieves that the log has lost its
// end: some ten seconds, in which a server finds out that it leads no more.
const doubts = 7

func (g *feed) createConsumer(ctx context.Context, inbox string) error {
	config := jetstream.ConsumerConfig{
		DeliverSubject:    inbox,
		FilterSubject:     g.filter,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		FlowControl:       true,
		IdleHeartbeat:     g.opts.Heartbeat,
		InactiveThreshold: consumerLife,
		MemoryStorage:     true,
		Replicas:          1,
	}
	switch g.start.kind {
	case fromSequence:
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, g.start.seq
	case fromTime:
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &g.start.at
	default:
		config.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy
	}
	ctx, a := g.log.begin(ctx)
	defer a.end()
	if _, err := g.log.js.CreatePushConsumer(ctx, g.log.opts.Stream, config); err != nil {
		return fmt.Errorf("create a consumer on %s: %w", g.log.opts.Stream, a.explain(err))
	}
	return nil
}

func (g *feed) loop(messages <-chan *nats.Msg) error {
	if g.target == 0 {
		if err := g.caughtUp(); err != nil {
			return err
		}
	}
	limit := 2 * g.opts.Heartbeat
	g.silence = time.NewTimer(limit)
	defer g.silence.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return context.Cause(g.ctx)
		case msg := <-messages:
			if err := g.take(msg); err != nil {
				return err
			}
			g.silence.Reset(limit)
		case <-g.silence.C:
			// The handler may have taken its time, with messages waiting.
			select {
			case msg := <-messages:
				if err := g.take(msg); err != nil {
					return err
				}
				g.silence.Reset(limit)
			default:
				return fmt.Errorf("%w: nothing was heard for %s", ErrFeedSilent, limit)
			}
		}
	}
}

// take handles whatever the consumer sends: messages of the log, requests of
// its flow control, and heartbeats.
func (g *feed) take(msg *nats.Msg) error {
	// A message of the log has an ack subject for its reply. Only what has
	// none can be from the consumer itself, whatever its headers are.
	if meta, err := msg.Metadata(); err == nil {
		g.consumed++
		if meta.Sequence.Consumer != g.consumed {
			return errFeedGap
		}
		return g.deliver(&message{
			subject: msg.Subject, seq: meta.Sequence.Stream, stored: meta.Timestamp, header: msg.Header, data: msg.Data,
		})
	}
	if status := msg.Header.Get("Status"); status != "100" {
		return fmt.Errorf("%w: the consumer ended with status %s %s", ErrFeedSilent, quote(status), quote(msg.Header.Get("Description")))
	}
	if msg.Reply != "" {
		if err := msg.Respond(nil); err != nil {
			return fmt.Errorf("%w: %w", ErrFeedSilent, err)
		}
		return nil
	}
	if stalled := msg.Header.Get("Nats-Consumer-Stalled"); stalled != "" {
		if err := g.log.nc.Publish(stalled, nil); err != nil {
			return fmt.Errorf("%w: %w", ErrFeedSilent, err)
		}
	}
	return g.heartbeat(headerNumber(msg.Header, "Nats-Last-Consumer"), headerNumber(msg.Header, "Nats-Last-Stream"))
}

func headerNumber(header nats.Header, name string) uint64 {
	n, err := strconv.ParseUint(header.Get(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// heartbeat looks at the consumer's own position: how many messages it has
// sent, and up to which sequence it has looked through the stream.
func (g *feed) heartbeat(sent, looked uint64) error {
	switch {
	case sent != g.consumed:
		return errFeedGap
	case g.complete:
		g.position.next = max(g.position.next, looked+1)
		return nil
	}
	// The target may have been deleted meanwhile, and nothing may follow.
	target, err := g.log.get(g.ctx, g.log.opts.Stream, msgGet{LastBySubject: g.filter})
	if err != nil {
		return err
	}
	if target == nil || looked >= target.seq {
		return g.caughtUp()
	}
	return nil
}

func (g *feed) deliver(msg *message) error {
	// A consumer on a server that is behind begins at that server's end.
	if g.start.precedes(msg) {
		return nil
	}
	if g.snapshot != nil {
		g.snapshot[msg.subject[:strings.LastIndexByte(msg.subject, '.')]] = msg
	} else if err := g.hand(g.log.entry(msg)); err != nil {
		return err
	}
	g.position.seen, g.position.seenStored = msg.seq, msg.stored
	if !g.complete && msg.seq >= g.target {
		return g.caughtUp()
	}
	return nil
}

// hand gives one entry to the caller.
func (g *feed) hand(entry Entry) error {
	entry.Gap, g.position.gap = g.position.gap, false
	if err := g.handle(entry); err != nil {
		return handlerError{err}
	}
	g.position.next = max(g.position.next, entry.Seq+1)
	return nil
}

// caughtUp hands over the snapshot, if this feed began with one, and tells that
// the feed is current.
func (g *feed) caughtUp() error {
	snapshot := slices.SortedFunc(maps.Values(g.snapshot), func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	entries := g.log.entries(snapshot)
	for i, msg := range snapshot {
		entry := entries[i]
		if entry.Err != nil {
			last, err := g.log.lastEvent(g.ctx, msg.subject[:strings.LastIndexByte(msg.subject, '.')]+".*", msg)
			if err != nil {
				return err
			}
			if last.Seq > 0 {
				if err := g.hand(last); err != nil {
					return err
				}
			}
		}
		if err := g.hand(entry); err != nil {
			return err
		}
	}
	g.snapshot, g.complete = nil, true
	g.position.next = max(g.position.next, g.base)
	g.follower.current()
	return nil
}
