package events

import (
	"slices"
	"time"

	retry "github.com/cenkalti/backoff/v5"
)

// account is what a recorder knows of one election. Its methods take the time
// as a value, do no I/O and keep nothing waiting.
type account struct {
	election Election

	// queue holds the states that the log may lack, oldest first. last is the
	// newest state, in the queue or not.
	queue []entry
	last  Observed
	known bool // last is set
	ids   uint64

	// tail is what the log last said. When it is not known, Seq is only the
	// greatest sequence seen.
	tail      Tail
	tailKnown bool
	// loss is which of the losses of the log the tail was read after.
	loss uint64
	// high is the greatest epoch that the log ever had, and the term it is of.
	high struct {
		epoch    uint64
		holder   string
		acquired time.Time
		over     bool
	}

	// gap and lost are what the states that left the queue without an event
	// leave to the next one: see reconcile.
	gap  bool
	lost lost
	own  ownTerm
	// odd tells that the record's leaseTransitions were seen to change within
	// a term, so that they count no terms.
	odd bool
	// settled: the log says that the term of the last state leads. Renewals
	// are then of no interest.
	settled bool
	// unfit: no event can speak of the last state.
	unfit bool

	// busy: a request to the log is under way, and inFlight is the newest
	// entry that it is about. stale: its answer will be out of date.
	busy, stale bool
	inFlight    uint64
	// asking: a request to the store is under way. Nothing waits for it.
	asking bool

	// doubtAt is when to ask the store, because the log knows of later things
	// than this replica. confirmed is its answer, good for the tail at
	// confirmedAt.
	doubtAt     time.Time
	confirmed   *Observed
	confirmedAt uint64

	retryAt time.Time
	pause   *retry.ExponentialBackOff // nil while all is well
	behind  int                       // refused appends in a row
	lastErr error

	flush []chan struct{}
	epoch uint64 // the own term's, as last told

	// The owner's: where it stands in the lists.
	ready   bool
	waiting [kinds]bool // for a worker
	wakeAt  time.Time
	place   int // in the timers, or -1
}

// entry is a state that waits.
type entry struct {
	Observed
	id uint64
	// due is when it may be reported. late is when it may be although terms
	// are missing before it: zero until that is known.
	due, late time.Time
	// before is the state before.
	before Observed
	// lost are the terms that were dropped just before.
	lost lost
	// checked: the store has confirmed the lapse. askAt is when to ask it next.
	checked bool
	askAt   time.Time
}

// lost counts terms that could not be kept, and names the last of them.
type lost struct {
	terms    uint64
	holder   string
	acquired time.Time
	revision uint64
}

// and adds those that were lost later.
func (l lost) and(later lost) lost {
	if later.terms == 0 {
		return l
	}
	later.terms += l.terms
	return later
}

// in tells whether another replica has reported the terms to the log.
func (l lost) in(tail Tail) bool {
	if tail.Last.Revision != l.revision {
		return tail.Last.Revision > l.revision
	}
	return tail.Last.Who() == l.holder && sameMoment(tail.Last.AcquireTime, l.acquired)
}

// ownTerm is the replica's own last term.
type ownTerm struct {
	holder   string
	acquired time.Time
	// revision is that of the last record of the term that was observed.
	revision uint64
	over     bool
}

// sameTerm tells whether two states name the same term: see [Reconcile].
func sameTerm(a, b Observed) bool {
	if a.Holder == "" || a.Holder != b.Holder {
		return false
	}
	return a.AcquireTime.IsZero() || b.AcquireTime.IsZero() || sameMoment(a.AcquireTime, b.AcquireTime)
}

// sameMoment compares as a Lease does, which stores microseconds.
func sameMoment(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// observe takes in a state. It reports whether the owner should look, and
// returns what had to be dropped.
func (a *account) observe(o Observed, now time.Time, opts *RecorderOptions) (attention bool, dropped []entry) {
	if o.Own {
		a.noteOwn(&o)
	} else if a.isOver(o) {
		return false, nil
	}
	if opts.Read != nil {
		// By the time that it is reported the log may know more. The recorder
		// asks the store itself, once it has read the tail.
		o.Confirmed = false
	}
	if o.Status == Absent && o.Revision == 0 && a.known && a.last.Revision > 0 {
		// The deletion had a revision, and it was a later one.
		o.Revision = a.last.Revision + 1
	}
	if a.known && a.isRenewal(o) {
		return a.renew(o, now), nil
	}
	if o.Status == Held {
		a.forgive(&o, now)
		if a.known && a.isRenewal(o) {
			return a.renew(o, now), nil
		}
	}
	o.Gap = o.Gap || !a.known
	dropped = a.push(o, now, opts)
	if o.Status == Ended && a.known && a.last.Status == Held && !sameTerm(a.last, o) {
		// The present is what was seen after that term.
		return true, dropped
	}
	a.last, a.known, a.unfit, a.settled = o, true, false, false
	a.doubtAt, a.confirmed = time.Time{}, nil
	return true, dropped
}

// noteOwn remembers the own term. An end that speaks of a later revision than
// the term had comes from an observer that already saw the next one.
func (a *account) noteOwn(o *Observed) {
	if a.own.holder != o.Holder || !sameMoment(a.own.acquired, o.AcquireTime) {
		a.own = ownTerm{holder: o.Holder, acquired: o.AcquireTime, revision: o.Revision}
	}
	switch {
	case o.Status == Ended:
		a.own.over = true
		if a.own.revision > 0 && (o.Revision == 0 || o.Revision > a.own.revision) {
			o.Revision = a.own.revision
		}
	case !a.own.over:
		a.own.revision = max(a.own.revision, o.Revision)
	}
}

// isOver holds for records of an own term that has ended: renewals that were
// under way, and the record that still stands.
func (a *account) isOver(o Observed) bool {
	return a.own.over && (o.Status == Held || o.Status == Lapsed) && o.Holder == a.own.holder &&
		!o.AcquireTime.IsZero() && sameMoment(o.AcquireTime, a.own.acquired)
}

// isRenewal tells whether the state is the last one over again.
func (a *account) isRenewal(o Observed) bool {
	l := &a.last
	if o.Status != l.Status || o.Holder != l.Holder || o.Reason != l.Reason {
		return false
	}
	switch o.Status {
	case Held, Lapsed, Ended:
		return o.AcquireTime.Equal(l.AcquireTime) || sameMoment(o.AcquireTime, l.AcquireTime)
	default:
		return !o.Gap // else somebody may have come and gone
	}
}

// renew takes in the same state with a new revision.
func (a *account) renew(o Observed, now time.Time) (attention bool) {
	if from, to := a.last.LeaseTransitions, o.LeaseTransitions; from != nil && to != nil && *from != *to && a.last.UID == o.UID && o.Status == Held {
		a.odd = true
	}
	claimed := o.Own && !a.last.Own
	if o.Revision >= a.last.Revision {
		// What is not newer is an observer's second source.
		a.last.update(o)
	}
	a.last.Own = a.last.Own || o.Own
	if n := len(a.queue); n > 0 && sameState(a.queue[n-1].Observed, a.last) {
		q := &a.queue[n-1]
		q.update(a.last)
		q.Own = a.last.Own
		if claimed {
			q.due = now
		}
	}
	return claimed || !a.settled
}

// update takes over what changes within a state.
func (o *Observed) update(n Observed) {
	o.UID, o.Revision, o.RenewTime = n.UID, n.Revision, n.RenewTime
	o.LeaseTransitions, o.LeaseDurationSeconds = n.LeaseTransitions, n.LeaseDurationSeconds
	o.EpochFloor, o.EpochIsOwn = n.EpochFloor, n.EpochIsOwn
}

func sameState(a, b Observed) bool {
	return a.Status == b.Status && a.Holder == b.Holder && sameMoment(a.AcquireTime, b.AcquireTime)
}

// forgive takes a lapse or an absence back that the holder itself has ended
// before it was due.
func (a *account) forgive(o *Observed, now time.Time) {
	for n := len(a.queue); n > 0; n-- {
		q := a.queue[n-1]
		if q.Status != Lapsed && q.Status != Absent || a.busy && q.id <= a.inFlight || !now.Before(q.due) || !sameTerm(q.before, *o) {
			return
		}
		a.queue = a.queue[:n-1]
		o.Gap = o.Gap || q.Gap
		a.lost = a.lost.and(q.lost)
		a.last = q.before
	}
}

// push puts a new state into the queue.
func (a *account) push(o Observed, now time.Time, opts *RecorderOptions) (dropped []entry) {
	a.ids++
	e := entry{Observed: o, id: a.ids, lost: a.lost}
	a.lost = lost{}
	if a.known {
		e.before = a.last
	}
	if !o.Own {
		e.due = now.Add(opts.delay())
		if o.Gap {
			// Whoever missed nothing knows better.
			e.due = e.due.Add(opts.delay())
		}
	}
	a.queue = append(a.queue, e)
	for len(a.queue) > opts.QueueLimit {
		d, ok := a.dropOldest()
		if !ok {
			break
		}
		dropped = append(dropped, d)
	}
	return dropped
}

// delay draws how long others are given.
func (o *RecorderOptions) delay() time.Duration {
	if o.Delay <= 0 {
		return 0
	}
	return o.Delay/2 + time.Duration(o.Rand()*float64(o.Delay))
}

// patience is how long others are given to fill a hole, once the log can be
// reached: they may be pausing after a failure, for half as long again as the
// limit at worst.
func (o *RecorderOptions) patience() time.Duration {
	return o.RetryLimit + o.RetryLimit/2 + o.delay()
}

// dropOldest drops the oldest state that is neither the first, nor the last,
// nor under way.
func (a *account) dropOldest() (entry, bool) {
	i := 1
	for a.busy && i < len(a.queue) && a.queue[i].id <= a.inFlight {
		i++
	}
	if i >= len(a.queue)-1 {
		return entry{}, false
	}
	d := a.queue[i]
	a.forget(i)
	return d, true
}

// forget takes the entry at i out of the queue and leaves to the next one what
// is known of the hole.
func (a *account) forget(i int) {
	d := a.queue[i]
	l := d.lost
	told := d.Holder == "" || d.Status == Absent ||
		i > 0 && sameTerm(a.queue[i-1].Observed, d.Observed) ||
		i+1 < len(a.queue) && sameTerm(a.queue[i+1].Observed, d.Observed)
	if !told {
		l = l.and(lost{terms: 1, holder: d.Holder, acquired: d.AcquireTime, revision: d.Revision})
	}
	if i+1 < len(a.queue) {
		next := &a.queue[i+1]
		next.Gap = true
		next.lost = l.and(next.lost)
	} else {
		a.gap = true
		a.lost = a.lost.and(l)
	}
	a.queue = slices.Delete(a.queue, i, i+1)
}

// follow takes in a tail as the log is followed.
func (a *account) follow(t Tail) {
	if !a.tailKnown {
		// Only a read tells that nothing lies between.
		a.tail.Seq = max(a.tail.Seq, t.Seq)
		return
	}
	a.setTail(t)
}

// setTail takes in what the log says. What the store said was about another
// tail.
func (a *account) setTail(t Tail) {
	a.tail, a.tailKnown, a.confirmed = t, true, nil
	l := &t.Last
	if t.Seq == 0 {
		l = &t.Before
	}
	if l.Epoch >= a.high.epoch {
		a.high.epoch, a.high.holder, a.high.acquired = l.Epoch, l.Who(), l.AcquireTime
		a.high.over = l.Transition == StoppedLeading
	}
}

// remember adds to a state what the log once said about epochs, and has lost.
// A term whose end was told, and which goes on, gets another number.
func (a *account) remember(o Observed) Observed {
	if a.high.epoch > a.tail.Last.Epoch && a.high.epoch > o.EpochFloor {
		o.EpochFloor = a.high.epoch
		o.EpochIsOwn = o.Holder == a.high.holder && sameMoment(o.AcquireTime, a.high.acquired) &&
			(!a.high.over || o.Status != Held)
	}
	return o
}

// toldBefore tells whether a log that was lost said something later than the
// entry: then others have told of it, and nobody needs to tell it again. The
// newest state is told in any case, for the log must end in it.
func (a *account) toldBefore(i int) bool {
	e, b := &a.queue[i], &a.tail.Before
	return a.tail.Seq == 0 && b.Epoch > 0 && i < len(a.queue)-1 && e.Revision > 0 && e.Revision < b.Revision
}

// ownEpoch is the number of the own term, if it leads and the log says so.
func (a *account) ownEpoch() uint64 {
	l := &a.tail.Last
	if !a.known || !a.last.Own || a.last.Status != Held || l.Transition == StoppedLeading ||
		l.Leader != a.last.Holder || !sameMoment(l.AcquireTime, a.last.AcquireTime) {
		return 0
	}
	return l.Epoch
}

func (a *account) unflush(done chan struct{}) {
	a.flush = slices.DeleteFunc(a.flush, func(c chan struct{}) bool { return c == done })
}

// idle tells whether nothing at all needs to be remembered of the election.
func (a *account) idle() bool {
	return a.known && a.last.Status == Absent && len(a.queue) == 0 && a.tailKnown && a.tail.Last.Leader == "" &&
		!a.busy && len(a.flush) == 0 && !a.gap && a.lost.terms == 0
}
