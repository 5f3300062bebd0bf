package claim

import (
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

func (s *State) take(m Moment, in Input) {
	if s.phase == finished {
		return
	}
	switch in := in.(type) {
	case Tick:
	case Event:
		s.event(m, in)
	case Feed:
		s.current = in.Current
	case Granted:
		s.grant(m, in)
	case Refused:
		s.refuse(m, in)
	case Silent:
		s.silent(m, in)
	case Returned:
		if in.Seq == s.back {
			s.back = 0
		}
	case Drain:
		s.drain(m, in)
	case Free:
		switch {
		case s.phase != waiting:
		case in.All:
			s.askBy(m.Now)
		default:
			s.askBy(m.Now.Add(spread(m, hintSpread)))
		}
	case HandlerEnded:
		s.ended(m, in)
	case Stop:
		s.stop = true
		// The work may use the grant, renewed, to end in good order.
		s.cancel(m, Stopping, true)
	}
}

// event takes in what the log says. Nothing about an older term than the
// newest one known matters any more.
func (s *State) event(m Moment, in Event) {
	over := in.Epoch
	if !in.Ended {
		over--
	}
	s.over = max(s.over, over)
	if s.epoch != 0 && s.epoch <= s.over {
		s.cancel(m, TermEnded, false)
	}
	if in.Epoch <= s.newest || in.Ended {
		s.newest = max(s.newest, in.Epoch)
		return
	}
	s.newest, s.failures = in.Epoch, 0
	if s.phase != waiting {
		return
	}
	s.askBy(m.Now)
	if n := len(s.sent); n > 0 {
		// The leader has had a request since it began, most likely, and has put
		// it off until its term was in the log.
		s.askAt = max(s.askAt, s.sent[n-1].at.Add(putOff))
	}
}

// askBy brings the next request forward.
func (s *State) askBy(at boottime.Instant) { s.askAt = min(s.askAt, at) }

func (s *State) grant(m Moment, in Granted) {
	at, ok := s.sentAt(in.Seq)
	if !ok || in.Epoch < s.newest || in.Epoch <= s.over || in.Valid <= 0 {
		return
	}
	s.newest, s.failures = in.Epoch, 0
	deadline := at.Add(in.Valid)
	switch {
	case s.phase == waiting:
		s.begin(m, in, at, deadline)
	case s.epoch == in.Epoch:
		s.prolong(m, in, at, deadline)
	default:
		// Another leader has taken over and given us the role. The work still
		// carries the old number: it ends, and begins anew under the new one.
		s.granted = max(s.granted, in.Seq)
		s.cancel(m, TermEnded, false)
	}
}

func (s *State) begin(m Moment, in Granted, at, deadline boottime.Instant) {
	if s.stop || m.Now < s.coolTill || deadline.Sub(m.Now) < max(least, Notice(in.Valid)) {
		// The leader believes that we hold the role. What we cannot use
		// another may.
		s.deadline = deadline
		s.giveBack(m)
		s.askAt = m.Now.Add(s.backoff(m))
		return
	}
	s.phase, s.epoch, s.granted, s.keep = working, in.Epoch, in.Seq, true
	s.deadline, s.notice = deadline, Notice(in.Valid)
	s.askAt = at.Add(in.Valid / 3)
	s.act(Start{Epoch: in.Epoch, Leader: in.Leader, Deadline: deadline})
}

func (s *State) prolong(m Moment, in Granted, at, deadline boottime.Instant) {
	s.granted = max(s.granted, in.Seq)
	if deadline <= s.deadline || m.Now >= s.deadline {
		return
	}
	if s.killAt == s.deadline {
		s.killAt = deadline
	}
	s.deadline = deadline
	s.askAt = max(at.Add(in.Valid/3), m.Now.Add(10*time.Millisecond))
	s.act(Extend{Deadline: deadline})
}

func (s *State) refuse(m Moment, in Refused) {
	_, ok := s.sentAt(in.Seq)
	if !ok || in.Epoch != 0 && in.Epoch < s.newest {
		return
	}
	if s.phase == working || s.phase == stopping {
		if in.Seq > s.granted {
			s.cancel(m, Refusal, false)
		}
		return
	}
	s.forget(in.Seq)
	s.newest = max(s.newest, in.Epoch)
	if in.Draining {
		s.drained = max(s.drained, in.Epoch)
	}
	wait := idlePeriod
	if in.RetryAfter > 0 && !in.Draining {
		wait = min(in.RetryAfter, idlePeriod)
	}
	s.failures = 0
	s.askAt = m.Now.Add(wait + spread(m, wait/4+hintSpread/4))
}

// silent paces the requests that nobody takes. A leader that the log has just
// named may need a moment until it answers.
func (s *State) silent(m Moment, in Silent) {
	if _, ok := s.sentAt(in.Seq); !ok || s.phase != waiting {
		return
	}
	s.forget(in.Seq)
	if in.Seq != s.seq {
		return
	}
	if s.current && s.newest <= s.over {
		s.askAt = m.Now.Add(idlePeriod + spread(m, idlePeriod/4))
		return
	}
	s.askAt = m.Now.Add(s.backoff(m))
}

func (s *State) drain(m Moment, in Drain) {
	if in.Epoch < s.newest {
		return
	}
	s.drained = in.Epoch
	if s.epoch != 0 && s.epoch <= in.Epoch {
		// Renewed meanwhile, as far as the draining leader does.
		s.cancel(m, Draining, true)
	}
	if s.phase == waiting {
		s.askAt = max(s.askAt, m.Now.Add(idlePeriod+spread(m, idlePeriod/4)))
	}
}

func (s *State) ended(m Moment, in HandlerEnded) {
	if s.phase != working && s.phase != stopping {
		return
	}
	old := s.epoch
	s.phase, s.epoch, s.killAt = waiting, 0, 0
	s.giveBack(m)
	s.coolTill = m.Now.Add(in.CoolDown)
	if in.CoolDown > 0 {
		s.coolTill = s.coolTill.Add(spread(m, in.CoolDown/10))
	}
	s.failures = 0
	s.askAt = m.Now.Add(returnRetry / 2)
	switch {
	case in.Done:
		s.stop = true
	case s.newest > old:
		// There is a new leader to ask already.
		s.askAt = m.Now
	case old <= max(s.over, s.drained):
		// The next leader makes itself known.
		s.askAt = m.Now.Add(idlePeriod + spread(m, idlePeriod/4))
	}
}
