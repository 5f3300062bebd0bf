package natskv

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

const (
	// The server sends a heartbeat when there is nothing else to send. Two
	// missing ones end the watch.
	heartbeat = time.Second
	// The server forgets a watch that nobody has listened to for so long.
	forgetAfter = 10 * time.Second
	// Telling the server that a watch is over must not keep anybody waiting.
	farewell = time.Second
	// So many messages may wait for a reader. Losing one ends the watch.
	backlog = 1024
)

// Watch follows the key, beginning with its last state. It ends when anything
// hints that something was missed or might be: a lost connection, a gap in the
// numbering, missing heartbeats, a consumer or bucket that is gone. A purge of
// the whole stream (nats stream purge) leaves no trace in it for a watch to
// see; the election's periodic read finds it.
func (l *lock) Watch(ctx context.Context) (<-chan election.Observation, error) {
	if err := l.ready(ctx); err != nil {
		return nil, l.fail("watch", err)
	}
	// Listen before the watch begins, so that no disconnection is missed.
	lost := l.conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	f, err := l.follow(ctx)
	if err != nil {
		l.conn.RemoveStatusListener(lost)
		return nil, l.fail("watch", err)
	}
	out := make(chan election.Observation)
	go func() {
		f.relay(ctx, lost, out)
		l.conn.RemoveStatusListener(lost)
		close(out)
		f.end(context.WithoutCancel(ctx))
	}()
	return out, nil
}

// follower is a consumer of the key on the server, and the subscription that
// it delivers to. The ordered consumers of nats.go would mend themselves, and
// say nothing about the time in which they heard nothing; and those that ask
// for messages hear nothing for two heartbeats when the first request reaches
// a cluster before word of the consumer has spread.
type follower struct {
	lock     *lock
	consumer string
	inbox    *nats.Subscription
	messages chan *nats.Msg
	last     uint64 // number of the last message in the consumer's count
}

func (l *lock) follow(ctx context.Context) (*follower, error) {
	f := &follower{lock: l, messages: make(chan *nats.Msg, backlog)}
	inbox, err := l.conn.ChanSubscribe(l.conn.NewInbox(), f.messages)
	if err != nil {
		return nil, err
	}
	f.inbox = inbox
	create := func() error {
		return l.guard(ctx, l.prefix+"CONSUMER.CREATE."+l.stream, func(ctx context.Context) error {
			c, err := l.js.CreatePushConsumer(ctx, l.stream, jetstream.ConsumerConfig{
				DeliverSubject:    inbox.Subject,
				DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
				AckPolicy:         jetstream.AckNonePolicy,
				FilterSubject:     l.subject,
				IdleHeartbeat:     heartbeat,
				InactiveThreshold: forgetAfter,
				MemoryStorage:     true,
				Replicas:          1,
			})
			if err == nil {
				f.consumer = c.CachedInfo().Name
			}
			return err
		})
	}
	err = create()
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.fit.Store(false)
		if err = l.ready(ctx); err == nil {
			err = create()
		}
	}
	if err != nil {
		_ = inbox.Unsubscribe()
		return nil, err
	}
	return f, nil
}

// end stops the consumer. When the server cannot be told, it forgets the
// consumer by itself.
func (f *follower) end(ctx context.Context) {
	_ = f.inbox.Unsubscribe()
	if f.lock.conn.Status() != nats.CONNECTED {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	_ = f.lock.js.DeleteConsumer(ctx, f.lock.stream, f.consumer)
}

// relay passes on what the consumer brings until something is wrong with it. A
// reader that is slow blocks nobody: the connection keeps what it brings, and
// the server keeps only the newest.
func (f *follower) relay(ctx context.Context, lost <-chan nats.Status, out chan<- election.Observation) {
	silence := time.NewTimer(2 * heartbeat)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost:
			return
		case <-silence.C:
			return
		case m, open := <-f.messages:
			if !open {
				return
			}
			o, news, err := f.receive(m)
			if err != nil {
				return // the read that follows says what is wrong
			}
			if news {
				select {
				case out <- o:
				case <-ctx.Done():
					return
				case <-lost:
					return
				}
			}
			silence.Reset(2 * heartbeat)
		}
	}
}

var errGap = errors.New("the watch has missed a message")

// receive reads one message. A heartbeat is no news, but it tells how many
// messages there should have been.
func (f *follower) receive(m *nats.Msg) (o election.Observation, news bool, err error) {
	if m.Header.Get("Status") != "" {
		if last := m.Header.Get("Nats-Last-Consumer"); last != "" && last != strconv.FormatUint(f.last, 10) {
			return o, false, errGap
		}
		return o, false, nil
	}
	meta, err := m.Metadata()
	if err != nil {
		return o, false, err
	}
	if meta.Sequence.Consumer != f.last+1 {
		return o, false, errGap
	}
	f.last++
	o, err = observe(meta.Sequence.Stream, m.Header, m.Data)
	return o, err == nil, err
}
