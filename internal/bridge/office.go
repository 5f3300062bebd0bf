package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// office is what a leader offers over NATS while its term lasts. Nobody else
// answers on these subjects, so a request that finds no responder knows that
// there is no leader.
type office struct {
	b       *Bridge
	service micro.Service
	desk    *desk
}

// open offers the services of the term. They survive an outage of NATS.
func (b *Bridge) open(term *election.Term) (*office, error) {
	service, err := b.front.take()
	if err != nil {
		return nil, err
	}
	o := &office{b: b, service: service, desk: newDesk(b, term)}
	for _, endpoint := range []struct {
		verb   string
		handle func(micro.Request)
	}{
		{events.GrantVerb, o.desk.grant}, // first: its requests come soonest
		{events.ReturnVerb, o.desk.giveBack},
		{events.StepDownVerb, func(r micro.Request) { o.stepDown(r, term) }},
	} {
		err := service.AddEndpoint(endpoint.verb, micro.HandlerFunc(asked(endpoint.handle)),
			micro.WithEndpointSubject(b.cfg.Election.RequestSubject(b.cfg.Prefix, endpoint.verb)))
		if err != nil {
			return nil, errors.Join(err, service.Stop())
		}
	}
	o.desk.tellFree("")
	return o, nil
}

// asked passes on the requests of clients. Somebody who may only read the log
// can have JetStream send something to this subject, but not with a subject for
// the answer that is theirs.
func asked(handle func(micro.Request)) func(micro.Request) {
	return func(r micro.Request) {
		if r.Reply() != "" && !events.SentByServer(r.Reply(), nats.Header(r.Headers())) {
			handle(r)
		}
	}
}

// close ends the services.
func (o *office) close() {
	o.desk.close()
	o.b.front.replace(o.service)
}

// maxRequest bounds a request's size; what is larger is not ours.
const maxRequest = 64 << 10

// stepDown answers that it will hand over, and then does. The requester learns
// of the outcome from the log.
func (o *office) stepDown(r micro.Request, term *election.Term) {
	var in events.StepDownRequest
	if len(r.Data()) > maxRequest {
		_ = r.Error("400", "the request is too large", nil)
		return
	}
	if len(r.Data()) > 0 {
		if err := json.Unmarshal(r.Data(), &in); err != nil {
			_ = r.Error("400", "the request is not JSON as expected: "+err.Error(), nil)
			return
		}
	}
	if in.To == o.b.elector.Identity() {
		_ = r.Error("409", "the candidate named is the leader itself", nil)
		return
	}
	if term.Check() != nil {
		_ = r.Error("409", "the term is over", nil)
		return
	}
	answer := events.StepDownAnswer{Leader: o.b.elector.Identity(), Epoch: o.b.recorder.Epoch(o.b.cfg.Election)}
	if err := r.RespondJSON(answer); err != nil {
		o.b.cfg.Logger.Warn("a request to hand over could not be answered", "error", err)
	}
	// The term's end waits for this office to close, so its end is not
	// awaited here.
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := o.b.elector.StepDown(ctx, in.To); err != nil && !errors.Is(err, election.ErrNotLeading) {
			o.b.cfg.Logger.Warn("a request to hand over was not carried out", "error", err)
		}
	}()
}
