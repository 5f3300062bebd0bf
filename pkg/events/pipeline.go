package events

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pipeline sends the messages of several elections so that each message waits
// for the one before it in its own election, and for no other. An exchange with
// the server takes many times as long as making a message, and one goroutine
// keeps hundreds of exchanges under way.
type pipeline struct {
	*attempt
	ctx  context.Context
	told func(i int, last uint64, err error)
	// alone: there is one addition, and nothing to do while it waits.
	alone bool
	// sent are the messages under way, in the order in which they were sent,
	// which is the one in which their answers are to be expected.
	sent []sending
	wg   sync.WaitGroup
}

// sending is a message under way, with those of its election that follow it.
type sending struct {
	Addition

	i        int
	messages []*nats.Msg
	after    uint64 // what the message is to follow
	last     uint64 // what has been stored by this append
	high     uint64 // the greatest sequence seen before it was sent
	ack      jetstream.PubAckFuture
}

// next takes in that the first message is stored.
func (s *sending) next(seq uint64) {
	s.messages, s.after, s.last = s.messages[1:], seq, seq
	if len(s.messages) > 0 && s.Progress != nil {
		s.Progress(len(s.Events)-len(s.messages), seq)
	}
}

// begin sends the first message of an addition.
func (p *pipeline) begin(i int, add Addition) {
	if len(add.Events) == 0 {
		p.told(i, add.After, nil)
		return
	}
	messages, err := p.log.messages(add.Election, add.Events)
	if err == nil {
		err = p.log.connected()
	}
	switch {
	case err != nil:
		p.told(i, 0, err)
	case len(messages) > 1 && p.log.atomic.Load():
		p.aside(i, func() (uint64, error) { return p.storeBatch(p.ctx, add, messages) })
	case p.alone:
		last, err := p.storeEach(p.ctx, sending{Addition: add, messages: messages, after: add.After})
		p.told(i, last, err)
	default:
		p.send(sending{Addition: add, i: i, messages: messages, after: add.After})
	}
}

func (p *pipeline) send(s sending) {
	p.log.condition(s.messages[0], s.Election, s.after)
	s.high = p.log.high.Load()
	var err error
	if s.ack, err = p.log.js.PublishMsgAsync(s.messages[0], jetstream.WithRetryAttempts(0)); err != nil {
		p.fail(s, err)
		return
	}
	p.sent = append(p.sent, s)
}

// run takes in the answers.
func (p *pipeline) run() {
	for n := 0; n < len(p.sent); n++ {
		s := p.sent[n]
		p.sent[n] = sending{}
		select {
		case ack := <-s.ack.Ok():
			p.stored(s, ack)
		case err := <-s.ack.Err():
			p.fail(s, err)
		case <-p.ctx.Done():
			p.fail(s, p.ctx.Err())
		}
	}
	p.wg.Wait()
}

func (p *pipeline) stored(s sending, ack *jetstream.PubAck) {
	if ack.Duplicate {
		p.again(s)
		return
	}
	p.log.noteAppend(p.ctx, ack.Sequence, s.high)
	s.next(ack.Sequence)
	if len(s.messages) == 0 {
		p.told(s.i, s.last, nil)
		return
	}
	p.send(s)
}

// fail tells of an append that was not made, unless it may be tried again.
func (p *pipeline) fail(s sending, err error) {
	if code := codeOf(err); isAboutID(code) || isCrowded(code) {
		p.again(s)
		return
	}
	p.aside(s.i, func() (uint64, error) { return s.last, p.explainAppend(p.ctx, err) })
}

// again sends what is left of an addition, the message under way included.
func (p *pipeline) again(s sending) {
	p.aside(s.i, func() (uint64, error) { return p.storeEach(p.ctx, s) })
}

// aside finds out the outcome of an addition while the others go on.
func (p *pipeline) aside(i int, outcome func() (uint64, error)) {
	p.wg.Go(func() {
		last, err := outcome()
		p.told(i, last, err)
	})
}
