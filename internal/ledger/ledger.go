package ledger

import (
	"math"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// never is later than every other moment.
const never = boottime.Instant(math.MaxInt64)

// maxRoles bounds the memory that requests can take.
const maxRoles = 10_000

// Ledger is the account of one term. It is not safe for concurrent use.
type Ledger struct {
	notBefore boottime.Instant
	drainBy   boottime.Instant
	roles     map[string]*entry
}

// entry is what is known of a role. One whose until is zero is free, and kept
// for its last request: a request of the former holder that was under way when
// the holder gave the role back must not take it again.
type entry struct {
	worker, instance string
	seq              uint64
	until            boottime.Instant
}

// New returns the empty account of a term that gives no grant before an
// instant; zero for at once.
func New(notBefore boottime.Instant) *Ledger {
	return &Ledger{notBefore: notBefore, drainBy: never, roles: map[string]*entry{}}
}

// Refusal says why no grant was given, and when to ask again.
type Refusal struct {
	Reason     events.RefusalReason
	RetryAfter time.Duration
	Holder     string
}

// Grant gives the role to the worker that asks, or prolongs its grant, and
// returns the instant at which it ends. The leader's own term is valid until
// the term's deadline, which must lie ahead.
func (l *Ledger) Grant(now, term boottime.Instant, r events.GrantRequest) (until boottime.Instant, no *Refusal) {
	if now < l.notBefore {
		return 0, &Refusal{Reason: events.RefusedNotYet, RetryAfter: l.notBefore.Sub(now)}
	}
	e := l.roles[r.Role]
	mine := e != nil && e.instance == r.Instance
	switch {
	case mine && r.Seq <= e.seq:
		return 0, &Refusal{Reason: events.RefusedStale}
	case mine && e.until > now:
		until = max(e.until, min(term, l.drainBy))
	case e != nil && e.until > now:
		return 0, &Refusal{Reason: events.RefusedHeld, RetryAfter: e.until.Sub(now), Holder: e.worker}
	case l.drainBy != never:
		return 0, &Refusal{Reason: events.RefusedDraining}
	case e == nil && !l.room(now):
		return 0, &Refusal{Reason: events.RefusedFull, RetryAfter: time.Second}
	default:
		until = term
	}
	l.roles[r.Role] = &entry{worker: r.Worker, instance: r.Instance, seq: r.Seq, until: until}
	return until, nil
}

// room tells whether one more role can be kept, and makes room if need be.
func (l *Ledger) room(now boottime.Instant) bool {
	if len(l.roles) < maxRoles {
		return true
	}
	for role, e := range l.roles {
		if e.until <= now {
			delete(l.roles, role)
		}
	}
	return len(l.roles) < maxRoles
}

// Return takes a grant back, and reports whether that made the role free. What
// is not the holder's, or older than its last request, changes nothing.
func (l *Ledger) Return(now boottime.Instant, r events.GrantRequest) (freed bool) {
	e := l.roles[r.Role]
	if e == nil || e.instance != r.Instance || r.Seq < e.seq {
		return false
	}
	freed = e.until > now
	e.seq, e.until = r.Seq, 0
	return freed
}

// Drain begins the end of the term: from now on roles are only given back or
// lapse, at the latest at the deadline, or when what was given before it ends.
func (l *Ledger) Drain(deadline boottime.Instant) { l.drainBy = min(l.drainBy, deadline) }

// Outstanding returns how many grants run.
func (l *Ledger) Outstanding(now boottime.Instant) int {
	n := 0
	for _, e := range l.roles {
		if e.until > now {
			n++
		}
	}
	return n
}

// Settled returns the instant from which on no grant can be running, neither
// one of this leader, unless it is prolonged, nor one of a predecessor. Before
// it the lock must not become free: the next leader would take the term for one
// that ended cleanly, and give the roles away at once.
func (l *Ledger) Settled() boottime.Instant {
	at := l.notBefore
	for _, e := range l.roles {
		at = max(at, e.until)
	}
	return at
}

// Lapse returns the roles whose grants ran out since the last call without
// having been given back, and the instant at which the next may; zero when none
// can.
func (l *Ledger) Lapse(now boottime.Instant) (roles []string, next boottime.Instant) {
	for role, e := range l.roles {
		switch {
		case e.until == 0:
		case e.until <= now:
			e.until = 0
			roles = append(roles, role)
		case next == 0 || e.until < next:
			next = e.until
		}
	}
	return roles, next
}
