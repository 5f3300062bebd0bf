package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// Append adds events to the log of an election, in the given order, if the log
// still ends where the caller thinks: after is the Seq of its tail, zero for a
// log that is empty. It returns the sequence of the last event.
//
// All events are stored, or none, when the log is [Log.Atomic]. Otherwise they
// are stored one by one, each on condition that it follows the one before, and
// an error may come with the sequence of the last one that was stored.
//
// An append whose condition does not hold, or whose events were stored before,
// gives ErrBehind. After ErrOutcomeUnknown, as after ErrBehind, the caller
// reads the tail and decides anew; sending the same events again would do no
// harm, since the server refuses a retry of an append that was made. The other
// errors are those of this package's sentinels. Without a deadline in ctx the
// append gives up after five seconds.
func (l *Log) Append(ctx context.Context, e Election, after uint64, events ...Event) (last uint64, err error) {
	l.AppendEach(ctx, []Addition{{Election: e, After: after, Events: events}}, func(_ int, seq uint64, failure error) { last, err = seq, failure })
	return last, err
}

// Addition is what [Log.AppendEach] adds to the log of one election: the
// arguments of [Log.Append].
type Addition struct {
	Election Election
	After    uint64
	Events   []Event
	// Progress, if not nil, is told of each event that is stored before the
	// last one: how many that are by now, and its sequence.
	Progress func(stored int, seq uint64)
}

// AppendEach is [Log.Append] for several elections at once: nothing waits for
// an answer that it does not need. Each election may be there once. Whatever
// befalls one of them leaves the others alone.
//
// told is called once for each addition, with its index and with what Append
// would return, as soon as that is known. It may be called by several
// goroutines at once and should return soon. AppendEach returns when all has
// been told.
func (l *Log) AppendEach(ctx context.Context, all []Addition, told func(i int, last uint64, err error)) {
	ctx, a := l.begin(ctx)
	defer a.end()
	p := pipeline{attempt: a, ctx: ctx, alone: len(all) == 1, told: func(i int, last uint64, err error) {
		if err != nil {
			err = fmt.Errorf("append %d events of %s after %d to %s: %w", len(all[i].Events), all[i].Election.KVKey(), all[i].After, l.opts.Stream, err)
		}
		told(i, last, err)
	}}
	for i, add := range all {
		p.begin(i, add)
	}
	p.run()
}

// messages encodes the events, without a condition.
func (l *Log) messages(e Election, events []Event) ([]*nats.Msg, error) {
	messages := make([]*nats.Msg, len(events))
	for i, event := range events {
		if event.Election != e {
			return nil, fmt.Errorf("%w: event %s belongs to %s", ErrRefused, event.Transition, event.Election.KVKey())
		}
		header, data, err := Encode(event, l.opts.ContentMode)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		header[jetstream.MsgIDHeader] = []string{event.ID()}
		header[jetstream.ExpectedStreamHeader] = []string{l.opts.Stream}
		messages[i] = &nats.Msg{Subject: e.Subject(l.opts.Prefix, event.Transition), Header: header, Data: data}
	}
	return messages, nil
}

// storeEach sends what is left of an addition one message after the other, each
// on condition that it follows the one before. It returns the sequence of the
// last one stored.
func (a *attempt) storeEach(ctx context.Context, s sending) (uint64, error) {
	for len(s.messages) > 0 {
		seq, err := a.store(ctx, s.Election, s.after, s.messages[:1])
		if err != nil {
			return s.last, err
		}
		s.next(seq)
	}
	return s.last, nil
}

// storeBatch sends messages as one atomic batch.
func (a *attempt) storeBatch(ctx context.Context, add Addition, messages []*nats.Msg) (uint64, error) {
	l := a.log
	select {
	case l.batches <- struct{}{}:
		defer func() { <-l.batches }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: too many others append: %w", ErrUnavailable, ctx.Err())
	}
	last, err := a.store(ctx, add.Election, add.After, messages)
	if codeOf(err) != codeAtomicDisabled {
		return last, err
	}
	// Somebody has changed the stream, or made it anew.
	l.atomic.Store(false)
	if messages, err = l.messages(add.Election, add.Events); err != nil {
		return 0, err
	}
	return a.storeEach(ctx, sending{Addition: add, messages: messages, after: add.After})
}

// condition lets the server store a message only if the election's last one is
// still the one at sequence after.
func (l *Log) condition(m *nats.Msg, e Election, after uint64) {
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(after, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{e.Filter(l.opts.Prefix)}
}

// maxBatches bounds the atomic batches under way: a stream takes in fifty at a
// time unless it is told otherwise, from all writers together.
const maxBatches = 48

// maxTries bounds how often an append is sent that was certainly not made, and
// only for want of room among the appends of others.
const maxTries = 6

// store sends one step, under the condition that the election's last message
// is still the one at sequence after. Several messages go as one atomic batch.
func (a *attempt) store(ctx context.Context, e Election, after uint64, step []*nats.Msg) (uint64, error) {
	l := a.log
	// Only the first message of a batch may have a condition; it holds for
	// all of them.
	l.condition(step[0], e, after)
	high := l.high.Load()
	for try := 1; ; try++ {
		ack, err := l.send(ctx, step)
		switch code := codeOf(err); {
		case step[0].Header[jetstream.MsgIDHeader] != nil && (err == nil && ack.duplicate || isAboutID(code)):
			for _, m := range step {
				delete(m.Header, jetstream.MsgIDHeader)
			}
		case err == nil && ack.duplicate:
			return 0, fmt.Errorf("%w: %w", ErrBehind, errDuplicate)
		case err == nil:
			l.noteAppend(ctx, ack.sequence, high)
			return ack.sequence, nil
		case try < maxTries && isCrowded(code):
			if pause(ctx, try) != nil {
				// A batch is incomplete also when a part of it was denied.
				return 0, a.explainAppend(ctx, err)
			}
		default:
			return 0, a.explainAppend(ctx, err)
		}
	}
}

var errDuplicate = errors.New("the stream reports a duplicate although the message has no id")

// isAboutID holds for refusals because of a message's id. Mostly the server
// remembers one of the events because the step is in the log already, and its
// condition does not hold. But ids are remembered for a while after a stream has
// lost what they stood for, and early servers of 2.12 want none in a batch. The
// condition decides; ask again without ids.
func isAboutID(code jetstream.ErrorCode) bool {
	return code == codeAtomicDuplicate || code == codeDuplicateInProcess || code == codeAtomicUnsupportedHeader
}

// isCrowded holds for refusals by a stream that is busy with the appends of
// others. It takes in 50 batches at a time unless it is told otherwise, and
// says that one is incomplete when it had no room for its beginning.
func isCrowded(code jetstream.ErrorCode) bool {
	return code == codeAtomicIncomplete || code == codeAtomicTooManyInflight || code == codeLastSequenceNotReady
}

// pause waits a random time that grows with every try, from a few milliseconds
// to some hundred.
func pause(ctx context.Context, try int) error {
	limit := 5 * time.Millisecond << try
	timer := time.NewTimer(limit/2 + rand.N(limit/2)) // #nosec G404 -- it only spreads load
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ack is what the server says about a step that was stored.
type ack struct {
	sequence  uint64
	duplicate bool
}

func (l *Log) send(ctx context.Context, step []*nats.Msg) (ack, error) {
	if len(step) == 1 {
		// The caller tries again when there is no responder; it knows why.
		a, err := l.js.PublishMsg(ctx, step[0], jetstream.WithRetryAttempts(0))
		if err != nil {
			return ack{}, err
		}
		return ack{sequence: a.Sequence, duplicate: a.Duplicate}, nil
	}
	// Nothing is stored before the last message has arrived, and the server
	// finds gaps, so there is no need to wait for an ack in between.
	a, err := jetstreamext.PublishMsgBatch(ctx, l.js, step, jetstreamext.BatchFlowControl{AckFirst: false})
	if err != nil {
		return ack{}, err
	}
	return ack{sequence: a.Sequence}, nil
}

// noteAppend remembers the sequence of an append. One that is not above all
// that were seen before the append was sent tells that the stream has lost its
// end: then the bucket needs repair.
func (l *Log) noteAppend(ctx context.Context, seq, before uint64) {
	if seq > before {
		l.advance(seq)
		return
	}
	l.high.Store(seq)
	l.opts.Logger.Warn("the log has lost its end: sequences have gone back", "stream", l.opts.Stream, "sequence", seq, "seenBefore", before)
	if err := l.repairView(ctx); err != nil {
		l.opts.Logger.Error("cannot repair the leaders' bucket", "bucket", l.opts.Bucket, "error", err)
	}
}
