package core

import "time"

// decide does what is due, as the state now is.
func (s *State) decide(m Moment) {
	s.endOverdue(m)
	s.yield(m)
	if s.Leading() && !s.working {
		reason := s.endReason
		if s.phase == leading {
			reason = WorkEnded
			s.holdBack = s.cfg.RetryPeriod
		}
		s.end(m, reason)
	}
	if s.phase == closing {
		s.decideClosing(m)
	}
	if s.phase == standby {
		s.decideStandby(m)
	}
	if s.Leading() {
		s.decideLeader(m)
	}
	if s.phase == finished {
		return
	}
	s.tell(m)
	if s.complete {
		s.complete = false
		s.track.Complete()
	}
	s.decideRead(m)
}

// endOverdue ends a term whose time is over (S2), whose deleted record could
// not be made again in time, or whose work did not drain in time.
func (s *State) endOverdue(m Moment) {
	if !s.Leading() {
		return
	}
	switch {
	case m.Now >= s.ValidUntil():
		s.end(m, RenewDeadline)
	case s.goneAt != Never && m.Now >= s.goneAt.Add(s.cfg.RetryPeriod):
		s.end(m, Deleted)
	case s.phase == draining && m.Now >= s.drainUntil:
		s.end(m, s.endReason)
	}
}

// yield hands over when Kubernetes' coordinated election prefers another.
func (s *State) yield(m Moment) {
	r := s.track.obs.Record
	if s.phase == leading && r.Strategy != "" && r.PreferredHolder != "" && r.PreferredHolder != s.cfg.Identity {
		s.drain(m, StepDown)
	}
}

// drain tells the work to end while the lock is still held and renewed.
func (s *State) drain(m Moment, reason Reason) {
	s.phase, s.endReason = draining, reason
	s.drainUntil = m.Now.Add(s.cfg.DrainTimeout)
	s.act(Drain{Reason: reason})
}

// end closes the term. The work may still be on its way out.
func (s *State) end(m Moment, reason Reason) {
	s.act(End{Reason: reason, Obs: s.own.obs})
	s.phase, s.endReason = closing, reason
	s.renewAt, s.goneAt = Never, Never
	if s.drainUntil == Never {
		s.drainUntil = m.Now.Add(s.cfg.DrainTimeout)
	}
}

func (s *State) decideClosing(m Moment) {
	switch {
	case !s.working:
		s.phase, s.drainUntil = standby, Never
		s.heldBack = m.Now.Add(s.holdBack)
		s.holdBack = 0
	case s.stopping && m.Now >= s.drainUntil:
		// The Lease is not released: whatever still runs has its time.
		s.phase = finished
		s.act(Done{Clean: false})
	}
}

func (s *State) decideStandby(m Moment) {
	mayLead := s.standing && !s.stopping
	ours := s.own != nil && s.isOwn(s.track.obs)
	if ours && !s.own.used && mayLead && m.Now >= s.track.heldUntil && m.Now < s.ValidUntil() {
		s.begin(m)
		return
	}
	if s.stopping && s.releaseUntil == Never {
		s.releaseUntil = m.Now.Add(max(s.cfg.RetryPeriod, time.Second))
	}
	idle := s.writing == nil && !s.unsure
	switch {
	case ours && (s.own.used || !mayLead) && m.Now < s.releaseBound():
		if idle && m.Now >= s.renewAtOrNow() {
			s.release(m)
		}
	case s.stopping:
		if idle || m.Now >= s.releaseUntil {
			s.phase = finished
			s.act(Done{Clean: true})
		}
	case mayLead && idle && m.Now >= s.eligibleAt():
		s.acquire(m)
	}
}

// releaseBound is when trying to release is given up.
func (s *State) releaseBound() Instant {
	return min(s.releaseUntil, s.track.expiry(s.cfg.LeaseDuration))
}

// renewAtOrNow is when a release that was refused may be tried again.
func (s *State) renewAtOrNow() Instant {
	if s.renewAt == Never {
		return 0
	}
	return s.renewAt
}

// begin starts a term on the record that we wrote.
func (s *State) begin(m Moment) {
	s.own.used = true
	s.phase, s.endReason, s.preferred, s.epoch = leading, NoReason, "", 0
	s.working = true
	s.renewAt = s.sentAt.Add(s.cfg.RetryPeriod)
	s.term = Term{Acquired: s.own.acquired, UID: s.own.uid, Clean: s.own.clean}
	if s.own.base.Exists && s.own.base.Record.Holder != "" {
		s.report(s.track.tellLapsed(m, s.own.base))
	}
	// In this order: who is told of the term finds it begun.
	s.act(Begin{Term: s.term})
	s.tell(m)
}

// eligibleAt is the first moment at which the lock may be taken (S1).
func (s *State) eligibleAt() Instant {
	if !s.track.known || s.track.unseen || s.track.obs.Record.Strategy != "" {
		return Never
	}
	t := max(s.tryAt, s.heldBack, s.track.heldUntil)
	r := s.track.obs.Record
	switch {
	case !s.track.obs.Exists:
	case r.Holder == "":
		if r.Preferred != "" && r.Preferred != s.cfg.Identity {
			t = max(t, s.track.since.Add(s.cfg.RetryPeriod))
		}
	case s.isOwn(s.track.obs) && !s.own.used:
		// Our own write arrived too late to lead on, and no work ever ran
		// under it.
	default:
		t = max(t, s.track.expiry(s.cfg.LeaseDuration))
	}
	return t
}

func (s *State) acquire(m Moment) {
	old := s.track.obs
	rec := Record{
		Holder:         s.cfg.Identity,
		Duration:       s.cfg.LeaseDuration,
		Acquired:       recordable(m.Wall),
		HasTransitions: true,
		Epoch:          old.Record.Epoch,
		EpochAcquired:  old.Record.EpochAcquired,
	}
	rec.Renewed = rec.Acquired
	if old.Exists {
		rec.Transitions = old.Record.Transitions + 1
	}
	s.write(m, Acquire, old, rec)
}

func (s *State) release(m Moment) {
	old := s.track.obs
	rec := old.Record
	// What client-go writes on a release, so that its candidates see one.
	rec.Holder, rec.Duration = "", time.Second
	rec.Acquired = recordable(m.Wall)
	rec.Renewed = rec.Acquired
	if s.epoch != 0 {
		rec.Epoch, rec.EpochAcquired = s.epoch, s.own.acquired
	}
	rec.Preferred = s.preferred
	// From now on the record may be gone at any moment: no term may begin on it.
	s.own.used = true
	s.write(m, Release, old, rec)
}

// decideLeader renews, and makes the record again when it was deleted.
func (s *State) decideLeader(m Moment) {
	if s.writing != nil || s.unsure || m.Now < s.renewAt {
		return
	}
	old := s.track.obs
	rec := old.Record
	if !old.Exists {
		rec = Record{Holder: s.cfg.Identity, Acquired: s.own.acquired, HasTransitions: true}
	}
	rec.Duration = s.cfg.LeaseDuration
	rec.Renewed = recordable(m.Wall)
	if s.epoch != 0 {
		rec.Epoch, rec.EpochAcquired = s.epoch, s.own.acquired
	}
	s.renewAt = m.Now.Add(s.cfg.RetryPeriod)
	s.write(m, Renew, old, rec)
}

func (s *State) write(m Moment, kind WriteKind, base Observation, rec Record) {
	s.lastID++
	s.writing = &pending{id: s.lastID, kind: kind, base: base, rec: rec, sent: m.Now}
	s.act(Write{ID: s.lastID, Kind: kind, Base: base, Record: rec})
}

// decideRead asks for the state when it is due, when a write's outcome is
// open, and before a holder who did not renew is reported as gone by a
// candidate that cannot take the lock itself.
func (s *State) decideRead(m Moment) {
	expired := s.expiredAt()
	if s.phase == standby && m.Now >= expired {
		if s.lastRead >= expired {
			s.track.lapsed = true
			s.tell(m)
		} else if s.writing == nil && s.reading == 0 && s.readSent < expired {
			s.readAt = m.Now
		}
	}
	if s.reading == 0 && m.Now >= s.readDue() {
		s.lastID++
		s.reading, s.readSent = s.lastID, m.Now
		s.act(Read{ID: s.lastID})
	}
}

// expiredAt is when the holder's time is over as long as nothing changes, and
// Never when that has been told, or when no duration says so.
func (s *State) expiredAt() Instant {
	if s.track.lapsed || s.track.obs.Record.Duration <= 0 {
		return Never
	}
	return s.track.expiry(0)
}

// readDue is when the next read is due. A leader's renewals are reads enough
// unless one of them went wrong.
func (s *State) readDue() Instant {
	if s.Leading() && !s.unsure {
		return Never
	}
	return s.readAt
}

// tell reports the lock's state if it is news.
func (s *State) tell(m Moment) {
	obs := s.track.obs
	if s.own != nil && s.isOwn(obs) && !s.Leading() && !s.track.lapsed {
		// Our own record outside a term: about to be released or taken anew.
		// The term's end has been reported by End.
		return
	}
	if s.Leading() && s.goneAt != Never {
		return // about to be made again, or the term ends
	}
	s.report(s.track.tell(m, s.Leading()))
	if r := obs.Record; r.Strategy != "" && !s.unsupported {
		s.unsupported = true
		s.act(Unsupported{Strategy: r.Strategy})
	}
}

func (s *State) report(views []View) {
	for _, v := range views {
		s.act(Changed{View: v})
	}
}

// Wake is the next moment after now at which something may be due without
// further input. What is due already waits for an answer that is under way.
func (s *State) Wake(now Instant) Instant {
	wake := Never
	due := func(moments ...Instant) {
		for _, i := range moments {
			if i > now {
				wake = min(wake, i)
			}
		}
	}
	due(s.readDue())
	switch s.phase {
	case leading, draining:
		due(s.ValidUntil(), s.drainUntil, s.renewAt)
		if s.goneAt != Never {
			due(s.goneAt.Add(s.cfg.RetryPeriod))
		}
	case closing:
		due(s.drainUntil)
	case standby:
		due(s.releaseUntil, s.renewAt, s.eligibleAt(), s.track.expiry(s.cfg.LeaseDuration), s.track.heldUntil)
	case finished:
		return Never
	}
	return wake
}

// recordable is a wall time as a Lease stores it.
func recordable(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
