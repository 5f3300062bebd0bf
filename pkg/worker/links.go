package worker

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/claim"
)

// links are a worker's ways to the leader: requests whose answers come to an
// inbox, and the leader's notices. Each request has an inbox of its own below a
// common one, named by its number: more than one answer may come, if an old
// leader wakes up beside the new one.
type links struct {
	inbox  string
	subs   []*nats.Subscription
	outbox chan *nats.Msg
}

// connect subscribes. It does not wait for the server.
func (r *run) connect() error {
	// The client library blocks publishers while it dials. The loop must not.
	r.outbox = make(chan *nats.Msg, 16)
	r.wg.Go(r.send)
	if r.opts.Follow != "" {
		return nil
	}
	r.inbox = r.nc.NewInbox()
	for subject, handle := range map[string]nats.MsgHandler{
		r.inbox + ".*":              r.answered,
		r.subject(events.DrainVerb): r.drained,
		r.subject(events.FreeVerb):  r.freed,

		r.subject(events.FreeVerb + "." + r.opts.Role): r.freed,
	} {
		sub, err := r.nc.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		r.subs = append(r.subs, sub)
	}
	return nil
}

// disconnect ends what connect began. The run is over: nothing is told any
// more.
func (r *run) disconnect() {
	for _, sub := range r.subs {
		_ = sub.Unsubscribe() // fails only on a connection that is closed
	}
}

func (r *run) subject(verb string) string {
	return r.opts.Election.RequestSubject(r.opts.Log.Prefix, verb)
}

func (r *run) send() {
	for {
		select {
		case m := <-r.outbox:
			if err := r.nc.PublishMsg(m); err != nil && m.Reply != "" {
				// Certainly not sent.
				r.tell(claim.Silent{Seq: seqOf(m.Reply)})
			}
		case <-r.life.Done():
			return
		}
	}
}

// post sends a request. When too many wait for the connection already it is
// lost, which is like any other loss.
func (r *run) post(verb string, seq uint64) {
	data, err := json.Marshal(events.GrantRequest{Role: r.opts.Role, Worker: r.opts.Identity, Instance: r.instance, Seq: seq})
	if err != nil {
		return // strings and numbers can be marshalled
	}
	m := &nats.Msg{Subject: r.subject(verb), Reply: r.inbox + "." + strconv.FormatUint(seq, 10), Data: data}
	select {
	case r.outbox <- m:
	default:
	}
}

func (r *run) ask(seq uint64) {
	if r.opts.Follow != "" {
		r.askLog(seq)
		return
	}
	r.post(events.GrantVerb, seq)
}

func (r *run) giveBack(seq uint64) {
	if r.opts.Follow != "" {
		r.later(claim.Returned{Seq: seq})
		return
	}
	r.post(events.ReturnVerb, seq)
}

// later hands an input to the loop from the loop itself.
func (r *run) later(in claim.Input) { r.wg.Go(func() { r.tell(in) }) }

func seqOf(subject string) uint64 {
	seq, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64)
	if err != nil {
		return 0 // no request has this number
	}
	return seq
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// answered takes in what came to the inbox.
func (r *run) answered(m *nats.Msg) {
	seq := seqOf(m.Subject)
	switch {
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		r.tell(claim.Silent{Seq: seq})
		return
	case len(m.Data) > maxAnswer, events.SentByServer(m.Reply, m.Header):
		return
	case m.Header.Get(micro.ErrorCodeHeader) != "":
		var no events.Refusal
		if json.Unmarshal(m.Data, &no) != nil || no.Reason == events.RefusedStale {
			return
		}
		if no.Reason == events.RefusedInvalid {
			r.opts.Logger.Error("the leader does not understand the request", "role", r.opts.Role, "error", m.Header.Get(micro.ErrorHeader))
		}
		r.tell(claim.Refused{
			Seq: seq, Epoch: no.Epoch, RetryAfter: millis(no.RetryAfterMillis),
			Draining: no.Reason == events.RefusedDraining,
		})
		return
	}
	var yes events.GrantAnswer
	if err := json.Unmarshal(m.Data, &yes); err != nil {
		return
	}
	if yes.ValidMillis == 0 { // the answer to a return
		r.tell(claim.Returned{Seq: seq})
		return
	}
	r.tell(claim.Granted{Seq: seq, Epoch: yes.Epoch, Leader: yes.Leader, Valid: millis(yes.ValidMillis)})
}

// millis is a duration from outside: what is out of all range counts as none.
func millis(n int64) time.Duration {
	if n < 0 || n > int64(24*time.Hour/time.Millisecond) {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

func (r *run) drained(m *nats.Msg) {
	var in events.DrainNotice
	if !events.SentByServer(m.Reply, m.Header) && len(m.Data) <= maxAnswer && json.Unmarshal(m.Data, &in) == nil {
		r.tell(claim.Drain{Epoch: in.Epoch})
	}
}

func (r *run) freed(m *nats.Msg) {
	var in events.FreeNotice
	if !events.SentByServer(m.Reply, m.Header) && len(m.Data) <= maxAnswer && json.Unmarshal(m.Data, &in) == nil && (in.Role == "" || in.Role == r.opts.Role) {
		r.tell(claim.Free{All: in.Role == ""})
	}
}
