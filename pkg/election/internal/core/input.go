package core

import "time"

// take changes what the state knows. What follows from it is decide's.
func (s *State) take(m Moment, in Input) {
	switch in := in.(type) {
	case Tick:
	case WatchUp:
		s.watching = true
		// What came before the watch, in case it is silent about that.
		s.watchSince, s.readAt = m.Now, m.Now
	case WatchDown:
		s.watching = false
		s.track.Missed()
		if !s.Leading() {
			s.readAt = m.Now.Add(jittered(m, s.cfg.RetryPeriod))
		}
	case Watched:
		s.learn(m, in.Obs, false, m.Now)
	case ReadDone:
		s.takeRead(m, in)
	case ReadFailed:
		if in.ID == s.reading {
			s.reading = 0
			s.readAt = m.Now.Add(s.retry(m))
		}
	case WriteDone:
		s.takeWritten(m, in)
	case WriteFailed:
		s.takeUnwritten(m, in)
	case EndTerm:
		if s.phase == leading {
			s.drain(m, in.Reason)
			s.preferred = in.Preferred
			s.holdBack = 2 * s.cfg.RetryPeriod
		}
	case WorkOver:
		s.working = false
	case Stand:
		s.standing = in.Yes
		if !in.Yes && s.phase == leading {
			s.drain(m, Unhealthy)
		}
	case EpochIs:
		if s.Leading() {
			s.epoch = in.Epoch
		}
	case Stop:
		s.stopping = true
		if s.phase == leading {
			s.drain(m, Released)
		}
	}
}

func (s *State) takeRead(m Moment, in ReadDone) {
	if in.ID != s.reading {
		return
	}
	s.reading = 0
	if s.learn(m, in.Obs, true, s.readSent) == overtaken {
		s.readAt = m.Now
		return
	}
	s.lastRead = s.readSent
	s.unsure = false
	switch {
	case !s.watching:
		s.readAt = m.Now.Add(jittered(m, s.cfg.RetryPeriod))
	case s.readSent < s.watchSince:
		s.readAt = m.Now
	default:
		// Guards against a watch that has gone silent. Candidates that began
		// together, as after a restart of the API server, do not ask together.
		s.readAt = m.Now.Add(s.cfg.LeaseDuration + time.Duration(m.Rand*float64(s.cfg.LeaseDuration)/guardSpread))
		s.complete = true
	}
}

func (s *State) takeWritten(m Moment, in WriteDone) {
	p := s.writing
	if p == nil || p.id != in.ID {
		return
	}
	// What we wrote may be history already, or known from the watch: learn
	// sorts that out, with the write still on record as one of ours.
	s.learn(m, in.Obs, true, p.sent)
	s.writing = nil
	if p.kind == Renew && s.isOwn(s.track.obs) {
		s.renewed(p.sent)
	}
}

func (s *State) takeUnwritten(m Moment, in WriteFailed) {
	p := s.writing
	if p == nil || p.id != in.ID {
		return
	}
	s.writing = nil
	retry := m.Now.Add(jittered(m, s.cfg.RetryPeriod))
	switch in.Outcome {
	case Conflict:
		// Somebody else wrote. The watch has said who or is about to, unless
		// it is away; a leader must know at once.
		if s.track.obs.Exists == p.base.Exists && s.track.obs.Revision == p.base.Revision {
			s.track.unseen = true
		}
		switch {
		case p.kind != Acquire || !s.watching:
			s.unsure, s.readAt = true, m.Now
		case s.track.unseen:
			s.tryAt = retry
			s.readAt = min(s.readAt, retry)
		}
	case Refused:
		s.tryAt, s.renewAt = retry, m.Now.Add(s.cfg.RetryPeriod)
	case UnknownOutcome:
		s.lose(*p)
		s.unsure, s.readAt = true, m.Now
		s.tryAt, s.renewAt = retry, m.Now
	}
}

// learn takes in a state of the lock and what it means for us.
func (s *State) learn(m Moment, obs Observation, read bool, sent Instant) news {
	hadOwn := s.isOwn(s.track.obs)
	n := s.track.learn(m.Now, obs, read, sent, hadOwn, s.cfg.LeaseDuration)
	if n == oldNews || n == overtaken {
		return n
	}
	if n == changed && !s.Leading() {
		// A new state is a new chance.
		s.tryAt = 0
	}
	s.recognise(m, obs)
	s.prune(obs)
	return n
}

// recognise finds out whether the lock's state is ours, still or newly.
func (s *State) recognise(m Moment, obs Observation) {
	p, sentByUs := s.sentAs(obs)
	switch {
	case s.isOwn(obs):
		s.own.uid, s.own.obs = obs.UID, obs
		if s.goneAt != Never {
			s.goneAt = Never
			s.term.UID = obs.UID
		}
		if sentByUs {
			s.renewed(p.sent)
		}
	case sentByUs && !s.Leading():
		// A renewal that arrives after its term is over leaves a record to be
		// given back; an acquisition may still begin one.
		s.own = &mark{
			uid: obs.UID, acquired: obs.Record.Acquired, base: p.base, obs: obs,
			used: p.kind == Renew, clean: p.base.Exists && p.sent >= s.track.dirtyUntil,
		}
		s.sentAt, s.renewAt = p.sent, Never
	case s.own != nil && !obs.Exists && s.Leading():
		if s.goneAt == Never {
			s.goneAt, s.renewAt = m.Now, m.Now
		}
	case s.own != nil:
		// Another holder, or our uid or acquire time is gone (S3).
		if s.Leading() {
			s.end(m, Superseded)
		}
		s.own = nil
	}
	if obs.Exists && obs.Record.Holder == s.cfg.Identity && !s.isOwn(obs) {
		s.collide(obs)
	}
}

// collide warns of a record with our identity that we did not write (S8), once
// for each of its terms.
func (s *State) collide(obs Observation) {
	at := stampOf(obs.Record.Acquired) + 1 // tells "no acquire time" from "never warned"
	if s.collided != at {
		s.collided = at
		s.act(Collision{Obs: obs})
	}
}

// renewed counts a write that is known to stand.
func (s *State) renewed(sent Instant) {
	s.sentAt = max(s.sentAt, sent)
}

// prune forgets lost writes that can no longer arrive: their condition was a
// state that the lock has left. A create can arrive whenever the lock is
// absent, so it stays until it is crowded out.
func (s *State) prune(obs Observation) {
	kept := s.lost[:0]
	for _, p := range s.lost {
		dead := p.base.Exists && obs.Revision != 0 && p.base.Revision != obs.Revision
		if !dead {
			kept = append(kept, p)
		}
	}
	s.lost = kept
}
