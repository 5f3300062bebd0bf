package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Tail returns what the log last said about an election; Seq is zero when it
// says nothing.
//
// It asks the leader of the stream. Any server that has a copy could answer
// faster, but a copy may lag, and a tail that is behind costs an append that is
// refused and a second look. Even the leader's answer may be old when it
// arrives: only the condition of the append tells.
//
// Where the log says nothing, it looks into the leaders' bucket: a log that was
// lost must not begin to count anew. Whoever may not read the bucket goes
// without, and so does a log without one.
//
// Messages on the election's subjects that are no events, or not this
// election's, are passed over: Seq is that of the last message, whatever it
// is, and Last the last event before it. So nobody who writes nonsense into the
// stream can stop an election's log or rewind its epoch.
func (l *Log) Tail(ctx context.Context, e Election) (Tail, error) {
	doing := "read the tail of " + e.Filter(l.opts.Prefix) + " in " + l.opts.Stream
	if err := e.Validate(); err != nil {
		return Tail{}, fmt.Errorf("%s: %w", doing, err)
	}
	filter := e.Filter(l.opts.Prefix)
	msg, err := l.get(ctx, l.opts.Stream, msgGet{LastBySubject: filter})
	if err != nil {
		return Tail{}, fmt.Errorf("%s: %w", doing, err)
	}
	if msg == nil {
		before, err := l.before(ctx, e)
		if err != nil {
			return Tail{}, fmt.Errorf("%s: %w", doing, err)
		}
		return Tail{Before: before}, nil
	}
	last, err := l.lastEvent(ctx, filter, msg)
	if err != nil {
		return Tail{}, fmt.Errorf("%s: %w", doing, err)
	}
	l.advance(msg.seq)
	return Tail{Seq: msg.seq, Last: last.Event}, nil
}

// before returns what the bucket knows of an election of which the log says
// nothing. The bucket is a stream of its own, and outlives the log's.
func (l *Log) before(ctx context.Context, e Election) (Event, error) {
	if l.opts.ReadOnly || l.sealed.Load() {
		return Event{}, nil // a reader counts nothing
	}
	msg, err := l.get(ctx, l.opts.bucketStream(), msgGet{LastBySubject: "$KV." + l.opts.Bucket + "." + e.KVKey()})
	switch {
	case errors.Is(err, ErrForbidden):
		l.sealed.Store(true) // asked again, it would be denied again
		return Event{}, nil
	case errors.Is(err, ErrNoStream):
		return Event{}, nil
	case err != nil:
		return Event{}, fmt.Errorf("look for it in the bucket %s: %w", l.opts.Bucket, err)
	case msg == nil:
		return Event{}, nil
	}
	if event, err := Decode(msg.header, msg.data); err == nil && event.Election == e {
		return event, nil
	}
	return Event{}, nil // what is no event says nothing
}

// Bounds returns the sequences of the first and the last message in the log, of
// all elections together. An empty log has a first one above its last.
func (l *Log) Bounds(ctx context.Context) (first, last uint64, err error) {
	info, err := l.lookUp(ctx, l.opts.Stream)
	if err != nil {
		return 0, 0, fmt.Errorf("read the bounds of the log: %w", err)
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// lastEvent returns the last event at or before msg, which is the last message
// of its filter, an election's. It returns the zero Entry when there is none.
func (l *Log) lastEvent(ctx context.Context, filter string, msg *message) (Entry, error) {
	if entry := l.entry(msg); entry.Err == nil {
		return entry, nil
	}
	// Begin at the best of what ends the three subjects, and go on from there
	// through what its neighbours may hide under their own ends.
	var best Entry
	stem := filter[:len(filter)-1]
	for _, t := range []Transition{BecameLeader, StoppedLeading, NewLeader} {
		end, err := l.get(ctx, l.opts.Stream, msgGet{LastBySubject: stem + string(t)})
		if err != nil {
			return Entry{}, err
		}
		if end == nil || end.seq > msg.seq {
			continue
		}
		if entry := l.entry(end); entry.Err == nil && entry.Seq > best.Seq {
			best = entry
		}
	}
	for seq := best.Seq + 1; seq < msg.seq; {
		next, err := l.get(ctx, l.opts.Stream, msgGet{Seq: seq, NextBySubject: filter})
		if err != nil {
			return Entry{}, err
		}
		if next == nil || next.seq >= msg.seq {
			break
		}
		if entry := l.entry(next); entry.Err == nil {
			best = entry
		}
		seq = next.seq + 1
	}
	return best, nil
}

// Entry is one message of the log.
type Entry struct {
	// Seq is its sequence in the stream, Stored when the server stored it.
	Seq    uint64
	Stored time.Time
	// Subject is the subject it was published on.
	Subject string
	// Event is what it says; zero when Err is not nil.
	Event Event
	// Err tells why the message is no event of this log.
	Err error
	// Gap is true when messages between the entry before and this one may
	// have been removed from the log before they could be delivered.
	Gap bool
}

// entry decodes a message. An event that belongs to another subject than the
// one it came on is not believed: permissions are given by subject.
func (l *Log) entry(msg *message) Entry {
	entry := Entry{Seq: msg.seq, Stored: msg.stored, Subject: msg.subject}
	event, err := Decode(msg.header, msg.data)
	if err == nil && event.Election.Subject(l.opts.Prefix, event.Transition) != msg.subject {
		err = fmt.Errorf("event %s of %s does not belong on subject %s", event.Transition, event.Election, quote(msg.subject))
	}
	if err != nil {
		entry.Err = fmt.Errorf("message %d on %s: %w", msg.seq, quote(msg.subject), err)
		return entry
	}
	entry.Event = event
	return entry
}

// entries decodes many messages, on all processors: decoding is most of the
// work of listing ten thousand elections.
func (l *Log) entries(msgs []*message) []Entry {
	entries := make([]Entry, len(msgs))
	workers := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(msgs); i += workers {
				entries[i] = l.entry(msgs[i])
			}
		})
	}
	group.Wait()
	return entries
}

// message is a stored message.
type message struct {
	subject string
	seq     uint64
	stored  time.Time
	header  nats.Header
	data    []byte
}

// msgGet is the request that the leader of a stream answers with one message.
type msgGet struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
	NextBySubject string `json:"next_by_subj,omitempty"`
}

// get fetches one message, or nil when there is none such. It does not use
// jetstream's GetMsg, which asks any replica where the stream allows it.
func (l *Log) get(ctx context.Context, stream string, request msgGet) (*message, error) {
	if err := l.connected(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, a := l.begin(ctx)
	defer a.end()
	answer, err := l.nc.RequestWithContext(ctx, l.api+"STREAM.MSG.GET."+stream, body)
	if err != nil {
		return nil, a.explain(err)
	}
	var response struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &response); err != nil {
		return nil, fmt.Errorf("read JetStream's answer: %w", err)
	}
	switch {
	case response.Error != nil && response.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case response.Error != nil:
		return nil, a.explain(response.Error)
	case response.Message == nil:
		return nil, errors.New("read JetStream's answer: no message in it")
	}
	m := &message{subject: response.Message.Subject, seq: response.Message.Seq, stored: response.Message.Time, data: response.Message.Data}
	if len(response.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(response.Message.Header); err != nil {
			return nil, fmt.Errorf("read the headers of message %d: %w", m.seq, err)
		}
	}
	return m, nil
}

// advance remembers the greatest sequence.
func (l *Log) advance(seq uint64) {
	for {
		high := l.high.Load()
		if seq <= high || l.high.CompareAndSwap(high, seq) {
			return
		}
	}
}
