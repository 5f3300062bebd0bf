package claim

import (
	"math"
	"slices"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// Never is later than every other moment.
const Never = boottime.Instant(math.MaxInt64)

const (
	// A request that got no answer is sent again, at first soon and then ever
	// more slowly; by a worker without a grant.
	firstRetry   = 5 * time.Millisecond
	longestRetry = 2 * time.Second
	// answerTime is how long a worker without a grant waits for an answer.
	answerTime = time.Second
	// idlePeriod is how often a worker asks although nothing suggests that it
	// would get the grant: what would suggest it may have been lost.
	idlePeriod = 5 * time.Second
	// hintSpread keeps many workers that wait for one role from asking all at
	// once when it becomes free.
	hintSpread = 20 * time.Millisecond
	// putOff is how long an answer may take of a leader whose term is only just
	// in the log.
	putOff = 10 * time.Millisecond
	// returnRetry is how long to wait for the answer to a return, and
	// returnTries how often it is sent.
	returnRetry = 250 * time.Millisecond
	returnTries = 3
	// notice is the time a handler has to stop before its grant ends, at most
	// a quarter of the grant.
	notice = 2 * time.Second
	// least is what must be left of a grant for the work to begin. Less is
	// hardly more than it takes to start and to stop, and a stop that outlasts
	// the grant ends the worker.
	least = 250 * time.Millisecond
	// A step that comes so much later than it was due means that the process
	// did not run: its handler did not either, and gets a moment to return.
	asleep    = 250 * time.Millisecond
	awakening = time.Second
	// maxSent bounds the requests whose time of sending is remembered.
	maxSent = 16
)

// Notice returns how long before its end a handler is told to stop, for a
// grant of that validity.
func Notice(valid time.Duration) time.Duration { return min(notice, valid/4) }

type phase int

const (
	// waiting: no grant, no handler.
	waiting phase = iota
	// working: the handler runs.
	working
	// stopping: the handler has been told to stop and has not returned.
	stopping
	// leaving: nothing runs, and the grant is on its way back.
	leaving
	finished
)

// State is one worker in one role.
type State struct {
	phase phase
	stop  bool

	// newest is the greatest epoch heard of, over the greatest one that has
	// ended, and drained the one whose leader gives no grants any more.
	newest, over, drained uint64
	current               bool

	seq  uint64
	sent []request // the latest requests that may still be answered
	// settled is the latest request whose answers do not count any more, nor
	// those of any before it: a return.
	settled uint64

	// The grant, in working and stopping.
	epoch    uint64
	granted  uint64 // the latest request that prolonged it
	deadline boottime.Instant
	notice   time.Duration
	killAt   boottime.Instant
	keep     bool // go on renewing while the handler stops

	// askAt is when to ask next, and failures counts requests without answer.
	askAt    boottime.Instant
	failures int
	coolTill boottime.Instant

	// back is the return that was not confirmed yet; zero when there is none.
	back      uint64
	backAt    boottime.Instant
	backTries int
	backUntil boottime.Instant

	acts []Action
}

type request struct {
	seq uint64
	at  boottime.Instant
}

// New returns a worker that has asked for nothing yet.
func New() *State { return &State{} }

// Holds reports whether the worker counts itself as the holder of an unexpired
// grant, and of which epoch.
func (s *State) Holds(now boottime.Instant) (epoch uint64, yes bool) {
	return s.epoch, (s.phase == working || s.phase == stopping) && now < s.deadline
}

// Wake is when the next step is due without other input.
func (s *State) Wake() boottime.Instant {
	wake := Never
	switch s.phase {
	case finished:
		return Never
	case waiting:
		wake = max(s.askAt, s.coolTill)
	case working:
		wake = min(s.askAt, s.deadline.Add(-s.notice))
	case stopping:
		wake = s.killAt
		if s.keep {
			wake = min(wake, s.askAt)
		}
	case leaving:
		// The grant's way back is all that is left, below.
	}
	if s.back != 0 {
		wake = min(wake, s.backAt)
	}
	return wake
}

// Step takes one input and returns what is to be done, in order. The slice is
// valid until the next step.
func (s *State) Step(m Moment, in Input) []Action {
	s.acts = s.acts[:0]
	if s.phase == finished {
		return nil
	}
	// A grant that ran out while this process did not run is over before any
	// news is heard.
	s.expire(m)
	s.take(m, in)
	s.due(m)
	return s.acts
}

func (s *State) act(a Action) { s.acts = append(s.acts, a) }

// expire stops what runs when its time is nearly, or quite, over.
func (s *State) expire(m Moment) {
	if s.phase == working && m.Now >= s.deadline.Add(-s.notice) {
		s.cancel(m, Lapsing, false)
	}
	if s.phase == stopping && m.Now >= s.killAt {
		if m.Now >= s.killAt.Add(asleep) {
			s.keep, s.killAt = false, m.Now.Add(awakening)
			return
		}
		s.phase = finished
		s.act(Finish{Overrun: true})
	}
}

// cancel asks the handler to stop. keep says whether its grant is renewed
// meanwhile.
func (s *State) cancel(m Moment, why Why, keep bool) {
	switch s.phase {
	case working:
		s.phase, s.keep, s.killAt = stopping, keep, s.deadline
		if m.Now >= s.deadline {
			s.keep, s.killAt = false, m.Now.Add(awakening)
		}
		s.act(Cancel{Why: why})
	case stopping:
		s.keep = s.keep && keep
	case waiting, leaving, finished:
		// No handler runs.
	}
}

// due does what the time says.
func (s *State) due(m Moment) {
	switch {
	case s.phase == waiting && s.stop:
		if len(s.sent) > 0 && s.back == 0 {
			// A request may be answered yet, and would keep others waiting.
			s.deadline = m.Now.Add(returnTries * returnRetry)
			s.giveBack(m)
		}
		s.phase = leaving
	case s.phase == waiting && m.Now >= max(s.askAt, s.coolTill),
		s.phase == working && m.Now >= s.askAt,
		s.phase == stopping && s.keep && m.Now >= s.askAt && m.Now < s.deadline:
		s.ask(m)
	}
	if s.back != 0 && m.Now >= s.backAt {
		s.sendBack(m)
	}
	if s.phase == leaving && s.back == 0 {
		s.phase = finished
		s.act(Finish{})
	}
}

func (s *State) ask(m Moment) {
	s.back = 0 // the leader heeds the later request alone
	s.seq++
	if len(s.sent) == maxSent {
		s.sent = append(s.sent[:0], s.sent[1:]...)
	}
	s.sent = append(s.sent, request{s.seq, m.Now})
	s.act(Ask{Seq: s.seq})
	if s.phase == waiting {
		s.askAt = m.Now.Add(answerTime + spread(m, answerTime/4))
		return
	}
	// A renewal that stays without an answer is tried again several times
	// before the handler has to be told.
	left := s.deadline.Sub(m.Now)
	s.askAt = m.Now.Add(max(left/8, 20*time.Millisecond))
}

// giveBack begins to return the grant.
func (s *State) giveBack(m Moment) {
	s.seq++
	s.settled = s.seq
	s.sent = s.sent[:0]
	s.back, s.backTries, s.backUntil = s.seq, 0, s.deadline
	s.sendBack(m)
}

func (s *State) sendBack(m Moment) {
	if s.backTries == returnTries || m.Now >= s.backUntil {
		s.back = 0 // it lapses, or has lapsed
		return
	}
	s.backTries++
	s.backAt = m.Now.Add(returnRetry)
	s.act(Return{Seq: s.back})
}

// sentAt is when a request was sent whose answer still counts.
func (s *State) sentAt(seq uint64) (boottime.Instant, bool) {
	if seq <= s.settled {
		return 0, false
	}
	for _, r := range s.sent {
		if r.seq == seq {
			return r.at, true
		}
	}
	return 0, false
}

// forget drops a request that was answered without a grant.
func (s *State) forget(seq uint64) {
	s.sent = slices.DeleteFunc(s.sent, func(r request) bool { return r.seq == seq })
}

// spread draws a time from zero up to d.
func spread(m Moment, d time.Duration) time.Duration {
	return time.Duration(m.Rand * float64(d))
}

// backoff is the pause after a number of failures in a row: at first short,
// then ever longer, never the same for two workers.
func (s *State) backoff(m Moment) time.Duration {
	d := longestRetry
	if s.failures < 10 {
		d = min(firstRetry<<s.failures, longestRetry)
	}
	s.failures++
	return d/2 + spread(m, d)
}
