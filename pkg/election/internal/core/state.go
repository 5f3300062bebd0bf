package core

import (
	"slices"
	"time"
)

type phase int

const (
	// standby: this process does not lead.
	standby phase = iota
	// leading: a term runs.
	leading
	// draining: a term runs, and its work has been told to end.
	draining
	// closing: the term is over and its work has not returned yet. Nothing is
	// released and no new term begins before it has.
	closing
	// finished: candidacy is over.
	finished
)

// pending is a write whose outcome is not known: under way, or its answer lost
// (S5).
type pending struct {
	id   uint64
	kind WriteKind
	base Observation
	rec  Record
	sent Instant
}

// mark names the record in the lock that this process wrote.
type mark struct {
	uid      string
	acquired time.Time
	// base is the state that the acquire write replaced.
	base Observation
	// used is true once a term has begun on it.
	used bool
	// clean is the Term.Clean of that term.
	clean bool
	// obs is the newest state of the lock that is this record.
	obs Observation
}

// maxLost bounds the writes that are remembered in case they arrive late.
const maxLost = 8

// pollJitter is client-go's jitter for polling standbys (leaderelection.go,
// JitterFactor): periods are stretched by up to this factor.
const pollJitter = 1.2

// guardSpread says by which part of the lease duration the guarding reads of
// standbys are spread: up to a quarter.
const guardSpread = 4

// State is one candidate. It is not safe for concurrent use: one goroutine
// owns it.
type State struct {
	cfg   Config
	track Track
	acts  []Action
	phase phase

	watching   bool
	watchSince Instant
	// complete: since the watch came up, a read has told what was before it.
	complete bool
	lastID   uint64
	reading  uint64 // id of the read under way, or zero
	readSent Instant
	// lastRead is when the last answered read was sent.
	lastRead Instant
	readAt   Instant
	writing  *pending
	lost     []pending
	// unsure: a write's outcome is open. Nothing is written before a read.
	unsure bool
	// tryAt is the earliest moment for the next acquire write after one that
	// failed; news of the lock resets it. heldBack is the same after a term
	// that was given up for others to take over, and stays.
	tryAt    Instant
	heldBack Instant

	own *mark
	// sentAt is when the last write that is known to stand was sent: the
	// start of the time that the record gives us (S2).
	sentAt  Instant
	renewAt Instant
	// goneAt is when our record was seen to be deleted in the middle of a
	// term: Never while it stands.
	goneAt Instant

	term       Term
	working    bool
	endReason  Reason
	preferred  string
	drainUntil Instant
	epoch      uint64

	standing     bool
	stopping     bool
	releaseUntil Instant
	holdBack     time.Duration
	collided     stamp
	unsupported  bool
}

// New returns a candidate that has seen nothing yet and may stand.
func New(cfg Config) *State {
	return &State{
		cfg:          cfg,
		track:        NewTrack(),
		standing:     !cfg.Unfit,
		goneAt:       Never,
		renewAt:      Never,
		drainUntil:   Never,
		releaseUntil: Never,
	}
}

// Step takes one input and returns what is to be done, in order. The slice is
// valid until the next step.
func (s *State) Step(m Moment, in Input) []Action {
	s.acts = s.acts[:0]
	if s.phase == finished {
		return nil
	}
	// Whatever the news is, a term that ran out while this process did not run
	// is over first (S6).
	s.endOverdue(m)
	s.take(m, in)
	s.decide(m)
	return s.acts
}

// Leading reports whether a term runs, as far as the last step knew.
func (s *State) Leading() bool { return s.phase == leading || s.phase == draining }

// ValidUntil is the moment at which the present term ends at the latest,
// unless a renewal prolongs it (S2).
func (s *State) ValidUntil() Instant {
	d := s.cfg.RenewDeadline
	if s.track.obs.Exists && s.isOwn(s.track.obs) {
		d = min(d, protection(s.track.obs.Record, d))
	}
	return s.sentAt.Add(d)
}

// Watching reports whether changes are delivered as they happen.
func (s *State) Watching() bool { return s.watching }

func (s *State) act(a Action) { s.acts = append(s.acts, a) }

// isOwn reports whether the lock's state is the record that this process
// wrote (S3, S4): identity alone proves nothing, since another process may
// have been given the same.
func (s *State) isOwn(obs Observation) bool {
	if s.own == nil || !obs.Exists || obs.Record.Holder != s.cfg.Identity || !obs.Record.Acquired.Equal(s.own.acquired) {
		return false
	}
	if obs.UID == s.own.uid {
		return true
	}
	// A new lock with our record is ours only if we recreated it.
	p, ok := s.sentAs(obs)
	return ok && !p.base.Exists
}

// sentAs finds the write of unknown outcome that made this state.
func (s *State) sentAs(obs Observation) (pending, bool) {
	match := func(p pending) bool {
		return p.kind != Release && obs.Record.Holder == p.rec.Holder &&
			obs.Record.Acquired.Equal(p.rec.Acquired) && obs.Record.Renewed.Equal(p.rec.Renewed)
	}
	if s.writing != nil && match(*s.writing) {
		return *s.writing, true
	}
	for _, p := range slices.Backward(s.lost) {
		if match(p) {
			return p, true
		}
	}
	return pending{}, false
}

// retry is how long to wait after a failure. A leader has no time to lose.
func (s *State) retry(m Moment) time.Duration {
	if s.Leading() {
		return s.cfg.RetryPeriod
	}
	return jittered(m, s.cfg.RetryPeriod)
}

func (s *State) lose(p pending) {
	if len(s.lost) == maxLost {
		s.lost = s.lost[1:]
	}
	s.lost = append(s.lost, p)
}

// jittered stretches a period as client-go does, so that candidates that
// failed together do not try again together.
func jittered(m Moment, d time.Duration) time.Duration {
	return d + time.Duration(pollJitter*m.Rand*float64(d))
}
