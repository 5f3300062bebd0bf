package events

import "time"

// Reporter is who writes events.
type Reporter struct {
	// Identity names the replica.
	Identity string
	// Perspective is how the replica sees terms that are not its own:
	// [ByWitness] or [ByWatcher]. Of its own it speaks [ByLeader].
	Perspective Perspective
}

// Reconcile returns the events that make the log of the election true, given
// what it last said and one state that the reporter observed: none when the
// log says it already, or has moved on. It is a pure function. Appended in one
// step and in this order, on the condition that the log still ends in the tail,
// the events keep the log legal; and on the tail that they make, the same state
// yields nothing more. Every replica may therefore run it at any time.
//
// # Terms
//
// A term is known by its holder and the record's acquireTime. The lock's uid
// may change within a term: a leader may recreate its deleted Lease. Leases
// without acquireTime (a kubelet's) know a term by its holder alone, until an
// end of it is in the log. A restart of a same-named holder that leaves
// acquireTime as it was cannot be seen in the record.
//
// A term gets one number, and a second one only when it was reported as ended
// by somebody else and its holder renews all the same: [Resumed]. What the
// leader itself said about its end is final: a record that still names it, be
// it a renewal that was on its way, does not bring the term back.
//
// # Old news
//
// Replicas see the lock at different speeds. A state is old news, and yields
// nothing, unless its revision is after the one that the tail speaks of. A
// lapse or an end also counts at the tail's own revision, since it comes after
// the record it speaks of; so does another term after an end that was read off
// its record. A state without revision is believed only when it is
// [Observed.Confirmed]; so is a state whose revision went backwards, since then
// the store was set back.
//
// # Numbers
//
// A new term's epoch is one above the greater of the tail's and the one in the
// record. Where the record has the term's own number and the tail is below it,
// the log has lost its end, and the term keeps its number.
//
// # Reasons
//
// An end that was seen has its reason. [Superseded] says that another term
// stands in the record and that no other end was seen. A start is [TakenOver]
// after an end that left the record standing (expired, renew-deadline,
// superseded), and [Acquired] after any other, or when nothing is known.
//
// # Times
//
// Time is when the observer saw the state begin. Where it did not see that (a
// gap, or a term that was over when it was first reported), the record's own
// times serve, unless they are later: acquireTime for a start, the last
// renewal plus the lease for a lapse, renewTime for a release.
func Reconcile(e Election, tail Tail, o Observed, r Reporter) []Event {
	events, _ := reconcile(e, tail, o, r, false)
	return events
}

// reconcile is [Reconcile] for one of a row of states that a replica observed.
// gap tells that the log and the replica have lost touch: a term may lie
// between the log's last word and this state, although the replica missed
// nothing. It returns whether that is so for the state after this one, given
// that the events, if any, are in the log by then.
//
// Touch is lost where a state is old news, because a rival that saw less wrote
// past it; it is found again where the log's last word is about the term
// observed. Where nobody holds the election there is nothing to find.
func reconcile(e Election, tail Tail, o Observed, r Reporter, gap bool) (events []Event, gapAfter bool) {
	s := step{election: e, o: usual(o), by: r, last: tail.Last}
	s.o.Gap = s.o.Gap || gap
	s.complete()
	owed := len(s.events)
	s.settle()
	same, _ := s.ofTerm()
	switch {
	case len(s.events) > owed || same:
		return s.events, false
	case s.notBefore():
		return s.events, s.o.Gap
	default:
		return s.events, true
	}
}

// settle appends what the state calls for.
func (s *step) settle() {
	switch s.o.Status {
	case Held:
		s.begin()
	case Lapsed:
		if s.begin() && s.notBefore() {
			s.end()
		}
	case Ended:
		// What the leader says of its own term holds whatever renewal of it
		// was seen since.
		if s.o.Holder != "" && s.begin() && (s.notBefore() || s.sure()) {
			s.end()
		}
	case Free, Absent:
		if s.open() && s.after() {
			s.end()
		}
	}
}

// usual turns odd states into usual ones: nobody is no holder, a lease without
// a duration does not run out, and numbers that no event can carry are absent.
func usual(o Observed) Observed {
	if o.Holder == "" && (o.Status == Held || o.Status == Lapsed) {
		o.Status = Free
	}
	if o.Status == Free || o.Status == Absent {
		o.Holder = ""
	}
	if o.EpochFloor > MaxEpoch {
		o.EpochFloor = 0
	}
	if o.LeaseTransitions != nil && *o.LeaseTransitions < 0 {
		o.LeaseTransitions = nil
	}
	if o.LeaseDurationSeconds != nil && *o.LeaseDurationSeconds < 0 {
		o.LeaseDurationSeconds = nil
	}
	if o.Status == Lapsed && o.LeaseDurationSeconds == nil {
		o.Status = Held
	}
	o.EpochIsOwn = o.EpochIsOwn && o.EpochFloor > 0
	return o
}

// step builds the events of one call. last is the log's last event, counting
// those already built: it is all that the log's state consists of.
type step struct {
	election Election
	o        Observed
	by       Reporter
	last     Event
	events   []Event
}

// open tells whether the log says that somebody leads.
func (s *step) open() bool {
	return s.last.Transition != StoppedLeading && s.last.Leader != ""
}

// ofTerm tells whether the log's last word is about the term observed. sure is
// false when only the holder's name says so.
func (s *step) ofTerm() (same, sure bool) {
	holder := s.last.Leader
	if !s.open() {
		holder = s.last.PreviousLeader
	}
	if holder == "" || holder != s.o.Holder {
		return false, false
	}
	if s.last.AcquireTime.IsZero() || s.o.AcquireTime.IsZero() {
		return true, false
	}
	// A Lease stores microseconds.
	same = s.last.AcquireTime.Truncate(time.Microsecond).Equal(s.o.AcquireTime.Truncate(time.Microsecond))
	return same, same
}

// sure tells whether the log's last word is certainly about the term observed.
func (s *step) sure() bool {
	_, sure := s.ofTerm()
	return sure
}

// after tells whether the state is of a later revision than the log's last
// word.
func (s *step) after() bool {
	switch {
	case s.o.Confirmed:
		return s.o.Revision == 0 || s.o.Revision != s.last.Revision
	case s.last.Revision == 0:
		return true
	default:
		return s.o.Revision > s.last.Revision
	}
}

// notBefore is after, or of the same revision.
func (s *step) notBefore() bool {
	return s.after() || s.o.Revision == s.last.Revision
}

// renumbered tells whether the record has a number for its own term that the
// log does not reach: the log has lost its end.
func (s *step) renumbered() bool {
	return s.o.EpochIsOwn && s.o.EpochFloor > s.last.Epoch
}

// complete adds the new-leader that a writer who crashed between two appends
// owes. It follows became-leader whatever is observed now.
func (s *step) complete() {
	if s.last.Transition != BecameLeader || !s.open() {
		return
	}
	same, _ := s.ofTerm()
	e := s.last
	e.Transition = NewLeader
	e.Reporter, e.Perspective = s.by.Identity, s.perspective(same)
	e.TraceParent, e.TraceState = "", ""
	s.emit(e)
}

// begin makes the log say that the observed term has begun. It reports whether
// the log now says that this term leads.
func (s *step) begin() bool {
	same, sure := s.ofTerm()
	switch {
	case s.open() && same && !s.renumbered():
		return true
	case s.open():
		if !same && !s.after() {
			return false
		}
		reason := TakenOver
		if same {
			reason = Resumed
		}
		s.stop(Superseded, s.startTime(reason), false)
		return s.start(reason)
	case same:
		return s.resume(sure)
	default:
		return s.notBefore() && s.start(s.startReason())
	}
}

// resume begins the term that the log says is over once more, when its holder
// renews it.
func (s *step) resume(sure bool) bool {
	if s.o.Status != Held || !s.after() {
		return false
	}
	if sure {
		return s.last.Perspective != ByLeader && s.start(Resumed)
	}
	// Without acquireTime nothing but the name says that it is the same term,
	// and a holder that gave up may well come back for another.
	if s.last.Reason == Expired && s.last.Perspective != ByLeader {
		return s.start(Resumed)
	}
	return s.start(s.startReason())
}

// end makes the log say that the open term is over.
func (s *step) end() {
	switch s.o.Status {
	case Held:
	case Free:
		s.stop(Released, s.unlessSeen(s.o.RenewTime), false)
	case Absent:
		s.stop(Deleted, s.o.At, false)
	case Lapsed:
		var lapse time.Time
		if !s.o.RenewTime.IsZero() {
			lapse = s.o.RenewTime.Add(time.Duration(*s.o.LeaseDurationSeconds) * time.Second)
		}
		s.stop(Expired, s.unlessSeen(lapse), true)
	case Ended:
		reason := s.o.Reason
		if reason == "" {
			reason = Superseded
		}
		s.stop(reason, s.o.At, true)
	}
}

// stop appends the end of the open term. own tells that the state observed is
// of that term, and not of what came after it.
func (s *step) stop(reason Reason, at time.Time, own bool) {
	e := Event{
		Election:             s.election,
		Transition:           StoppedLeading,
		UID:                  s.last.UID,
		Epoch:                s.last.Epoch,
		Time:                 at,
		PreviousLeader:       s.last.Leader,
		Reason:               reason,
		LeaseTransitions:     s.last.LeaseTransitions,
		LeaseDurationSeconds: s.last.LeaseDurationSeconds,
		AcquireTime:          s.last.AcquireTime,
		Reporter:             s.by.Identity,
		Perspective:          s.perspective(own),
		Revision:             s.o.Revision,
	}
	if own {
		e.RenewTime = s.o.RenewTime
	}
	if nobody := s.o.Status == Free || s.o.Status == Absent; nobody {
		if e.Missed = s.unseen(); e.Missed > 0 {
			// It was a later term that gave the election back, not the one
			// that the log knows.
			e.Reason = Superseded
		}
		// From here on the counter was seen.
		if s.o.UID == s.last.UID && s.o.LeaseTransitions != nil {
			e.LeaseTransitions = s.o.LeaseTransitions
		}
	}
	if e.UID == "" {
		e.UID = s.o.UID
	}
	if e.Revision == 0 {
		e.Revision = s.last.Revision
	}
	s.emit(e)
}

// start appends the beginning of the observed term. It does nothing, and
// reports false, when there is no number left.
func (s *step) start(reason Reason) bool {
	epoch := s.number()
	if epoch == 0 {
		return false
	}
	e := Event{
		Election:             s.election,
		Transition:           BecameLeader,
		UID:                  s.o.UID,
		Epoch:                epoch,
		Time:                 s.startTime(reason),
		Leader:               s.o.Holder,
		PreviousLeader:       s.last.PreviousLeader,
		Reason:               reason,
		Missed:               max(epoch-s.last.Epoch-1, s.unseen()),
		LeaseTransitions:     s.o.LeaseTransitions,
		LeaseDurationSeconds: s.o.LeaseDurationSeconds,
		AcquireTime:          s.o.AcquireTime,
		RenewTime:            s.o.RenewTime,
		Reporter:             s.by.Identity,
		Perspective:          s.perspective(true),
		Revision:             s.o.Revision,
	}
	if e.Missed > 0 {
		// Whoever led directly before is not known.
		e.PreviousLeader = ""
	} else if s.last.Transition == StoppedLeading && s.last.Reason != Superseded {
		// Of a term that was superseded nobody saw the end, only what followed.
		if ms := e.Time.Sub(s.last.Time).Milliseconds(); ms >= 0 {
			e.LeaderlessMillis = &ms
		}
	}
	s.emit(e)
	s.complete()
	return true
}

// number is the epoch of the observed term if it began now; zero when the
// numbers are used up.
func (s *step) number() uint64 {
	if s.renumbered() {
		return s.o.EpochFloor
	}
	if n := max(s.last.Epoch, s.o.EpochFloor) + 1; n <= MaxEpoch {
		return n
	}
	return 0
}

// unseen counts the terms that are known to have been between the log's last
// word and the observed state. Where states may have gone unseen, the lock's
// own counter tells, as long as it is the same one: some clients raise it with
// every renewal, so it is not asked without need. Else it is what the observer
// says it could not keep.
func (s *step) unseen() uint64 {
	from, to := s.last.LeaseTransitions, s.o.LeaseTransitions
	if !s.o.Gap || from == nil || to == nil || s.last.UID != s.o.UID {
		return s.o.Missed
	}
	n := *to - *from
	if s.o.Status != Free {
		// The observed term is one of them.
		n--
	}
	return uint64(max(n, 0))
}

func (s *step) startReason() Reason {
	if s.last.Missed > 0 {
		// An end with missed terms was read off a record that named nobody.
		return Acquired
	}
	switch s.last.Reason {
	case Expired, RenewDeadline, Superseded:
		return TakenOver
	default:
		return Acquired
	}
}

func (s *step) startTime(reason Reason) time.Time {
	switch {
	case s.o.Status == Held && reason == Resumed:
		return s.o.At
	case s.o.Status == Held:
		return s.unlessSeen(s.o.AcquireTime)
	default:
		return earlier(s.o.AcquireTime, s.o.At)
	}
}

// unlessSeen is when the state began: as seen, or, when its beginning was not
// seen, the time that the record tells.
func (s *step) unlessSeen(told time.Time) time.Time {
	if s.o.Gap {
		return earlier(told, s.o.At)
	}
	return s.o.At
}

// earlier is the time told, unless it is unknown or later than seen.
func earlier(told, seen time.Time) time.Time {
	if told.IsZero() || told.After(seen) {
		return seen
	}
	return told
}

// perspective is the reporter's; own tells that the event is about the term
// that was observed.
func (s *step) perspective(own bool) Perspective {
	if own && s.o.Own {
		return ByLeader
	}
	return s.by.Perspective
}

func (s *step) emit(e Event) {
	s.events = append(s.events, e)
	s.last = e
}
