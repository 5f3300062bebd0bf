package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// bare is an election without an election: two clients that do what a hand-over
// cannot do without, and nothing else. They keep no promise at all.
type bare struct {
	s      *site
	e      events.Election
	sides  [2]bareSide
	holder int
	lease  *coordinationv1.Lease
	after  uint64 // the last sequence of this election in the log
	round  int
}

type bareSide struct {
	leases coordinationclient.LeaseInterface
	watch  watch.Interface
	js     jetstream.JetStream
}

func (s *site) bare(e events.Election) *bare {
	b := &bare{s: s, e: e}
	for i := range b.sides {
		client, err := election.NewLeaseClient(s.config())
		s.must(err)
		b.sides[i].leases = client.Leases(e.Namespace)
		b.sides[i].js, err = jetstream.New(s.connect())
		s.must(err)
	}
	var err error
	b.lease, err = b.sides[0].leases.Create(s.ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: e.Lease, Namespace: e.Namespace},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("bare-0"), LeaseDurationSeconds: new(int32(15))},
	}, metav1.CreateOptions{})
	s.must(err)
	for i := range b.sides {
		b.sides[i].watch, err = b.sides[i].leases.Watch(s.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + e.Lease})
		s.must(err)
		s.Cleanup(b.sides[i].watch.Stop)
	}
	return b
}

// handed is what one hand-over of the bare clients took.
type handed struct {
	began time.Time
	// won is when the write that took the Lease was answered.
	won time.Time
	// stored is when the last event was acknowledged.
	stored time.Time
}

// handOver lets one side release the Lease and the other take it and publish
// the messages.
func (b *bare) handOver(ctx context.Context, messages []*nats.Msg) (handed, error) {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	old, next := &b.sides[b.holder], &b.sides[1-b.holder]
	b.round++
	messages, err := b.prepare(messages)
	if err != nil {
		return handed{}, err
	}
	free := b.written("")
	released := make(chan error, 1)
	h := handed{began: time.Now()}
	go func() {
		_, err := old.leases.Update(ctx, free, metav1.UpdateOptions{})
		released <- err
	}()
	seen, err := next.free(ctx, revisionOf(b.lease))
	if err != nil {
		return h, err
	}
	b.lease = seen
	if b.lease, err = next.leases.Update(ctx, b.written(fmt.Sprintf("bare-%d", b.round)), metav1.UpdateOptions{}); err != nil {
		return h, err
	}
	h.won = time.Now()
	for _, m := range messages {
		ack, err := next.js.PublishMsg(ctx, m)
		if err != nil {
			return h, err
		}
		b.after = ack.Sequence
		if m != messages[len(messages)-1] {
			b.condition(messages[1])
		}
	}
	h.stored = time.Now()
	b.holder = 1 - b.holder
	return h, <-released
}

// written is the Lease with another holder, as a bridge would write it.
func (b *bare) written(holder string) *coordinationv1.Lease {
	lease := b.lease.DeepCopy()
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = &holder, &now, &now
	return lease
}

// free waits until the watch tells of a later Lease that nobody holds.
func (s *bareSide) free(ctx context.Context, after uint64) (*coordinationv1.Lease, error) {
	for {
		select {
		case e, ok := <-s.watch.ResultChan():
			lease, is := e.Object.(*coordinationv1.Lease)
			if !ok || !is {
				return nil, errors.New("the bare client's watch has ended")
			}
			if revisionOf(lease) > after && *lease.Spec.HolderIdentity == "" {
				return lease, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func revisionOf(lease *coordinationv1.Lease) uint64 {
	n, err := strconv.ParseUint(lease.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// prepare makes messages for this election, with the bytes of those given.
func (b *bare) prepare(messages []*nats.Msg) ([]*nats.Msg, error) {
	var all []*nats.Msg
	for i, m := range messages {
		header := nats.Header{}
		maps.Copy(header, m.Header)
		header[jetstream.MsgIDHeader] = []string{fmt.Sprintf("%s.%d.%d", b.e.Lease, b.round, i)}
		header[jetstream.ExpectedStreamHeader] = []string{events.DefaultStream}
		e, t, err := events.ParseSubject(events.DefaultPrefix, m.Subject)
		if err != nil {
			return nil, fmt.Errorf("the message on %s for the bare client, of %s: %w", m.Subject, e, err)
		}
		copied := &nats.Msg{Subject: b.e.Subject(events.DefaultPrefix, t), Header: header, Data: m.Data}
		b.condition(copied)
		all = append(all, copied)
	}
	return all, nil
}

func (b *bare) condition(m *nats.Msg) {
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(b.after, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{b.e.Filter(events.DefaultPrefix)}
}
