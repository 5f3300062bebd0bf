package bridge

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/internal/ledger"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

const (
	// epochAgain is when a worker may ask again whose leader's term is not in
	// the log yet. It has usually read there that it is.
	epochAgain = 10 * time.Millisecond
	// maxEarly bounds the requests that wait for the leader's term to be in the
	// log. Who asks for a grant asks again about once a second.
	maxEarly = 1024
	// drainEvery is how often workers are asked to stop while one has not.
	drainEvery = 250 * time.Millisecond
	// A grant is told one part in clockTolerance shorter than it is, so that a
	// worker whose clock is slow by as much does not outlast it.
	clockTolerance = 100
)

// desk is where a leader gives grants, takes them back and counts those that
// lapse. Its methods are safe for concurrent use.
type desk struct {
	b    *Bridge
	term *election.Term

	mu    sync.Mutex
	epoch uint64 // zero until the log has the term
	// early are requests for grants that came before the log had the term.
	// They are answered when it has: workers are told to ask while the term's
	// first event is on its way to the log, so that one does not wait for the
	// other.
	early    []micro.Request
	ledger   *ledger.Ledger
	timer    *boottime.Timer
	armed    boottime.Instant // when the timer fires; zero when it does not
	freed    chan struct{}    // has a place for one; told when a grant ended
	draining bool
	closed   bool
}

// newDesk returns the desk of a term that has just begun.
func newDesk(b *Bridge, term *election.Term) *desk {
	var notBefore boottime.Instant
	if !term.Clean() {
		notBefore = boottime.Now().Add(b.cfg.Options.Default().LeaseDuration)
	}
	return &desk{b: b, term: term, ledger: ledger.New(notBefore), freed: make(chan struct{}, 1)}
}

// assigned opens the account under the number that the log gave to the term.
// It is called from the recorder and must not wait.
func (d *desk) assigned(epoch uint64) {
	d.mu.Lock()
	d.openLocked(epoch)
	early := d.early
	d.early = nil
	d.mu.Unlock()
	select {
	case d.freed <- struct{}{}: // a drain may have waited for a predecessor that never was
	default:
	}
	if len(early) > 0 {
		// Who asked too early need not wait. The recorder must not.
		go func() {
			for _, r := range early {
				d.grant(r)
			}
		}()
	}
}

// keep puts a request off until the log has the term. It returns false when the
// log has it by now, or when too many wait already.
func (d *desk) keep(r micro.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch != 0 || d.closed || len(d.early) >= maxEarly {
		return false
	}
	d.early = append(d.early, r)
	return true
}

func (d *desk) openLocked(epoch uint64) {
	if d.epoch == 0 && epoch == 1 {
		// In the first term ever there is no predecessor to wait for.
		d.ledger = ledger.New(0)
	}
	d.epoch = epoch
}

// verdict is what becomes of a request: an answer, a refusal or silence.
type verdict struct {
	answer *events.GrantAnswer
	no     *events.Refusal
}

func (d *desk) decide(r events.GrantRequest) verdict {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.term.Check() != nil {
		return verdict{} // the successor may be answering
	}
	if d.epoch == 0 {
		return verdict{no: &events.Refusal{Reason: events.RefusedNotYet, RetryAfterMillis: epochAgain.Milliseconds()}}
	}
	// In this order: the deadline can only move on meanwhile.
	deadline := d.term.Deadline()
	now := boottime.Now()
	if now >= deadline {
		return verdict{}
	}
	until, no := d.ledger.Grant(now, deadline, r)
	if no != nil {
		return verdict{no: &events.Refusal{
			Reason: no.Reason, Epoch: d.epoch, Holder: no.Holder,
			RetryAfterMillis: roundUp(no.RetryAfter).Milliseconds(),
		}}
	}
	d.watchLocked(until)
	d.countLocked(now)
	valid := until.Sub(now)
	valid -= valid / clockTolerance
	return verdict{answer: &events.GrantAnswer{Epoch: d.epoch, Leader: d.b.elector.Identity(), ValidMillis: valid.Milliseconds()}}
}

func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// grant answers a request for a grant.
func (d *desk) grant(r micro.Request) {
	in, ok := d.read(r)
	if !ok {
		return
	}
	v := d.decide(in)
	if v.no != nil && v.no.Reason == events.RefusedNotYet {
		if d.keep(r) {
			return
		}
		v = d.decide(in)
	}
	switch {
	case v.answer != nil:
		d.failed(r.RespondJSON(v.answer))
		d.b.metrics.Grant(context.Background(), instruments.GrantGiven)
	case v.no != nil:
		d.refuse(r, v.no)
		d.b.metrics.Grant(context.Background(), instruments.GrantRefused)
	}
}

// giveBack answers a worker that gives its grant back. What was not its grant
// is no fault: it may have lapsed, or been given by another leader.
func (d *desk) giveBack(r micro.Request) {
	in, ok := d.read(r)
	if !ok {
		return
	}
	d.mu.Lock()
	now := boottime.Now()
	freed := d.ledger.Return(now, in)
	if freed {
		d.countLocked(now)
	}
	d.mu.Unlock()
	if freed {
		d.b.metrics.Grant(context.Background(), instruments.GrantReturned)
		d.tellFree(in.Role)
	}
	d.failed(r.Respond([]byte("{}")))
}

// read takes in a request, from whoever may publish on the subject. Fields that
// it does not know come from a later version.
func (d *desk) read(r micro.Request) (in events.GrantRequest, ok bool) {
	var fault string
	if len(r.Data()) > maxRequest {
		fault = "the request is too large"
	} else if err := json.Unmarshal(r.Data(), &in); err != nil {
		fault = "the request is not JSON as expected"
	} else if err := in.Validate(); err != nil {
		fault = err.Error()
	}
	if fault == "" {
		return in, true
	}
	d.failed(r.Error("400", fault, body(&events.Refusal{Reason: events.RefusedInvalid})))
	return in, false
}

// refuse answers with a code in the manner of HTTP, a text for people, and the
// facts as JSON.
func (d *desk) refuse(r micro.Request, no *events.Refusal) {
	code, text := "503", "ask again later"
	switch no.Reason {
	case events.RefusedHeld:
		code, text = "409", "another worker has the role"
	case events.RefusedDraining:
		text = "the leader is about to hand over"
	case events.RefusedNotYet:
		text = "the leader has just begun"
	case events.RefusedStale:
		code, text = "409", "a later request was seen before"
	case events.RefusedFull:
		code, text = "507", "there are too many roles"
	case events.RefusedInvalid:
	}
	d.failed(r.Error(code, text, body(no)))
}

func body(no *events.Refusal) []byte {
	data, err := json.Marshal(no)
	if err != nil {
		return nil // texts and numbers can be marshalled
	}
	return data
}

// failed notes that an answer could not be sent. The worker asks again.
func (d *desk) failed(err error) {
	if err != nil {
		d.b.cfg.Metrics.Failed(context.Background(), instruments.PartGrants)
		d.b.cfg.Logger.Debug("a worker could not be answered", "error", err)
	}
}

// watchLocked lets the timer fire when a grant ends. The caller holds mu.
func (d *desk) watchLocked(until boottime.Instant) {
	switch {
	case d.armed != 0 && d.armed <= until:
		return
	case d.timer == nil:
		d.timer = boottime.AfterFunc(until, d.lapse)
	default:
		d.timer.Reset(until)
	}
	d.armed = until
}

// lapse counts the grants whose time is over, and tells who may wait for them.
func (d *desk) lapse() {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return
	}
	now := boottime.Now()
	roles, next := d.ledger.Lapse(now)
	d.armed = 0
	if next != 0 {
		d.watchLocked(next)
	}
	if len(roles) > 0 {
		d.countLocked(now)
	}
	d.mu.Unlock()
	for _, role := range roles {
		d.b.metrics.Grant(context.Background(), instruments.GrantLapsed)
		d.b.cfg.Logger.Warn("a worker has let its grant lapse", "election", d.b.cfg.Election.String(), "role", role)
		d.tellFree(role)
	}
}

// countLocked publishes the number of grants that run. The caller holds mu.
func (d *desk) countLocked(now boottime.Instant) {
	n := d.ledger.Outstanding(now)
	d.b.metrics.SetGrants(n)
	select {
	case d.freed <- struct{}{}:
	default:
	}
}

// tellFree lets waiting workers ask at once; an empty role stands for all. It
// only saves time: workers ask again in any case.
func (d *desk) tellFree(role string) {
	d.mu.Lock()
	useful := !d.closed && !d.draining && d.term.Check() == nil
	d.mu.Unlock()
	if !useful {
		return
	}
	// Each role has a subject of its own: with hundreds of roles, telling each
	// of them to the workers of all others was measured to leave no time for
	// anything else.
	verb := events.FreeVerb
	if role != "" {
		verb += "." + role
	}
	d.publish(verb, events.FreeNotice{Role: role})
}

func (d *desk) publish(verb string, notice any) {
	data, err := json.Marshal(notice)
	if err != nil {
		return // texts and numbers can be marshalled
	}
	d.failed(d.b.nc.Publish(d.b.cfg.Election.RequestSubject(d.b.cfg.Prefix, verb), data))
}

// drain asks all workers to stop, and returns when every grant has been given
// back or has lapsed. None is prolonged beyond the deadline meanwhile.
func (d *desk) drain(deadline boottime.Instant) {
	d.mu.Lock()
	d.ledger.Drain(deadline)
	d.draining = true
	d.mu.Unlock()
	d.wait(true)
}

// wait returns when no grant can be running any more.
func (d *desk) wait(ask bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var askAt boottime.Instant
	for {
		d.mu.Lock()
		now := boottime.Now()
		left := d.ledger.Settled().Sub(now)
		n, epoch := d.ledger.Outstanding(now), d.epoch
		d.mu.Unlock()
		if left <= 0 {
			return
		}
		if ask && n > 0 && now >= askAt {
			askAt = now.Add(drainEvery)
			d.publish(events.DrainVerb, events.DrainNotice{Epoch: epoch})
		}
		timer.Reset(min(drainEvery, left))
		select {
		case <-d.freed:
		case <-timer.C:
		}
	}
}

// close ends the desk. No grant may run any more.
func (d *desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.b.metrics.SetGrants(0)
}
