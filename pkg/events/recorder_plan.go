package events

import (
	"fmt"
	"slices"
	"time"
)

// deed is what an account needs its recorder to do.
type deed int

const (
	rest         deed = iota // nothing before plan.at
	readTail                 // ask the log for the tail
	readStore                // ask the store for the state
	appendEvents             // append plan.events
)

// kind tells apart the requests that do not wait for one another: to read the
// log, to write it, and to read the store.
type kind int

const (
	logRead kind = iota
	logWrite
	storeRead
	kinds
)

func (d deed) kind() kind {
	switch d {
	case readStore:
		return storeRead
	case appendEvents:
		return logWrite
	default:
		return logRead
	}
}

// maxAppends bounds the elections that have an append under way. They share one
// connection and need no goroutine each, and the server is quickest when it
// finds much to do.
const maxAppends = 1024

// limit is how many requests of a kind may be under way.
func (o *RecorderOptions) limit(k kind) int {
	if k == logWrite {
		return maxAppends
	}
	return o.Workers
}

// plan is what to do about an account now.
type plan struct {
	deed deed
	// at is when to look again; zero when only something new gives a reason.
	at time.Time
	// entry is the lapse that readStore is about; zero for the last state.
	entry uint64
	// events are based on the account's tail. Once they are in the log, the
	// entries up to upTo are done with, and gap holds.
	events []Event
	upTo   uint64
	gap    bool
	// unfit are states that no event can speak of.
	unfit []unfit
}

type unfit struct {
	state Observed
	err   error
}

// maxStep bounds the events of one append. JetStream takes batches of a
// thousand messages; small ones keep a long queue moving.
const maxStep = 48

// plan decides what to do about the account. It takes from the head of the
// queue what the log says already.
func (a *account) plan(now time.Time, opts *RecorderOptions) plan {
	var p plan
	if a.busy {
		return p
	}
	if now.Before(a.retryAt) {
		p.at = a.retryAt
		return p
	}
	if !a.tailKnown {
		p.deed = readTail
		return p
	}
	a.planQueue(&p, now, opts)
	if p.deed == rest && len(p.events) == 0 && len(a.queue) == 0 && a.known && !a.unfit {
		a.planLevel(&p, now, opts)
	}
	switch {
	case len(p.events) > 0:
		p.deed = appendEvents
	case p.deed == readStore && a.asking:
		p.deed = rest
	}
	return p
}

// planQueue folds what is due of the queue into events.
func (a *account) planQueue(p *plan, now time.Time, opts *RecorderOptions) {
	hurry := len(a.flush) > 0
	due := len(a.queue)
	for due > 0 && !hurry && now.Before(a.queue[due-1].due) {
		due--
	}
	tail, gap := a.tail, a.gap
	for i := 0; i < len(a.queue); {
		if len(p.events) == 0 && a.toldBefore(i) {
			a.done(a.queue[i].id)
			due = max(due-1, 0)
			continue
		}
		e := &a.queue[i]
		events, gapAfter := reconcile(a.election, tail, a.observed(e, tail), opts.Reporter, gap && !a.odd)
		switch {
		case len(events) == 0 && len(p.events) == 0:
			a.skip(gapAfter)
			gap, due = gapAfter, max(due-1, 0)
			continue
		case len(events) == 0:
		case i >= due:
			p.at = e.due
			return
		case !hurry && a.waitsForOthers(e, events, tail, now, opts):
			p.at = e.late
			return
		case len(p.events) > 0 && len(p.events)+len(events) > maxStep:
			return
		case e.Status == Lapsed && i == len(a.queue)-1 && !e.checked && opts.Read != nil:
			switch {
			case len(p.events) > 0:
			case now.Before(e.askAt):
				p.at = e.askAt
			default:
				p.deed, p.entry = readStore, e.id
			}
			return
		}
		if fit, err := fitting(events); err != nil {
			p.events = append(p.events, fit...)
			if len(p.events) == 0 {
				p.unfit = append(p.unfit, unfit{e.Observed, err})
				a.unfit = a.unfit || sameState(e.Observed, a.last)
				a.forget(i)
				due--
				continue
			}
			return
		}
		p.events = append(p.events, events...)
		if n := len(events); n > 0 {
			tail.Last = events[n-1]
		}
		p.upTo, p.gap = e.id, gapAfter
		gap = gapAfter
		i++
	}
}

// planLevel holds the log against the last state, when the queue is empty.
func (a *account) planLevel(p *plan, now time.Time, opts *RecorderOptions) {
	o := a.remember(a.last)
	if a.odd {
		o.Gap = false
	}
	if a.confirmed != nil && a.confirmedAt == a.tail.Seq {
		o = a.remember(*a.confirmed)
	}
	a.settled = false
	if events, _ := reconcile(a.election, a.tail, o, opts.Reporter, a.gap && !a.odd); len(events) > 0 {
		if o.Confirmed {
			p.events, p.gap = events, false
			return
		}
		// The log has lost what it said, or somebody wrote otherwise.
		a.push(a.last, now, opts)
		if l := &a.tail.Last; len(events) == 1 && events[0].Transition == NewLeader && l.Leader != a.last.Holder {
			// Or somebody is about to tell the news of a term of theirs.
			a.queue[len(a.queue)-1].due = now.Add(opts.delay())
		}
		a.planQueue(p, now, opts)
		return
	}
	said := step{o: o, last: a.tail.Last}
	same, _ := said.ofTerm()
	a.settled = o.Status == Held && said.open() && same
	if o.Status == Ended || o.Confirmed || opts.Read == nil {
		return
	}
	o.Confirmed = true
	if events, _ := reconcile(a.election, a.tail, o, opts.Reporter, false); len(events) == 0 {
		a.doubtAt = time.Time{}
		return
	}
	if a.doubtAt.IsZero() {
		a.doubtAt = now
		if !o.Own {
			// Most likely the news are on their way.
			a.doubtAt = now.Add(2 * opts.delay())
		}
	}
	if now.Before(a.doubtAt) {
		p.at = a.doubtAt
		return
	}
	p.deed = readStore
}

// observed is the entry's state as it stands against the tail.
func (a *account) observed(e *entry, tail Tail) Observed {
	o := a.remember(e.Observed)
	if a.odd {
		o.Gap = false
	}
	if e.lost.terms > 0 && !e.lost.in(tail) {
		o.Missed = e.lost.terms
	}
	return o
}

// skip takes the first entry out of the queue, which needs no event.
func (a *account) skip(gap bool) {
	l := a.queue[0].lost
	a.done(a.queue[0].id)
	a.gap = gap
	if !gap {
		return
	}
	if len(a.queue) > 0 {
		a.queue[0].lost = l.and(a.queue[0].lost)
	} else {
		a.lost = l.and(a.lost)
	}
}

// done takes the entries up to an id out of the queue.
func (a *account) done(upTo uint64) {
	a.queue = slices.DeleteFunc(a.queue, func(e entry) bool { return e.id <= upTo })
	if len(a.queue) == 0 {
		a.queue = nil // it may have been long
	}
}

// waitsForOthers tells whether the events leave out terms that another replica
// may have seen, and still has time to report. What is missing because the log
// has lost it nobody will bring.
func (a *account) waitsForOthers(e *entry, events []Event, tail Tail, now time.Time, opts *RecorderOptions) bool {
	last, hole := tail.Last.Epoch, false
	for i := range events {
		switch events[i].Transition {
		case StoppedLeading:
			hole = hole || events[i].Missed > 0
		case BecameLeader:
			hole = hole || events[i].Missed > events[i].Epoch-last-1
			last = events[i].Epoch
		case NewLeader:
		}
	}
	// Who has not seen what came before, and finds another record with another
	// counter, cannot even count what is missing before what it would say.
	hole = hole || e.Gap && tail.Seq > 0 && tail.Last.Transition != StoppedLeading && tail.Last.Leader != "" &&
		tail.Last.UID != "" && e.UID != "" && tail.Last.UID != e.UID
	if hole && e.late.IsZero() {
		e.late = now.Add(opts.patience())
	}
	return hole && now.Before(e.late)
}

// fitting returns the events up to the first one that cannot be written, and
// why not.
func fitting(events []Event) ([]Event, error) {
	for i := range events {
		if err := events[i].Validate(); err != nil {
			return events[:i], fmt.Errorf("%s: %w", events[i].Transition, err)
		}
	}
	return events, nil
}
