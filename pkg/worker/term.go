package worker

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Instant is a moment on this machine's boot-time clock, in nanoseconds; it
// cannot be compared with one of another machine, nor with wall-clock time.
// Instants are compared with < and >, moved with Add and subtracted with Sub.
type Instant = boottime.Instant

// Now returns the present Instant.
func Now() Instant { return boottime.Now() }

// Term is one grant to act in a role, as its handler sees it. It is a small
// value that may be copied; its methods are safe for concurrent use. Terms are
// made by [NewGrant]; the zero Term is over.
type Term struct {
	// Election is the election whose leader gave the grant.
	Election events.Election
	// Role is what the grant allows to do, once per election.
	Role string
	// Epoch is the number of the leader's term: it never falls, and is the
	// fencing token to hand to storage. Workers that follow one another under
	// the same leader have the same epoch.
	Epoch uint64
	// Leader is the identity of the leader who gave the grant.
	Leader string
	// Identity is the worker's own identity.
	Identity string

	v *validity
}

// validity is shared by all copies of a Term and its Grant.
type validity struct {
	deadline atomic.Int64
	ended    atomic.Pointer[error]

	mu      sync.Mutex
	changed chan struct{}
}

// Deadline returns the instant at which the grant ends unless it is prolonged.
// It only ever moves forward.
func (t Term) Deadline() Instant {
	if t.v == nil {
		return 0
	}
	return Instant(t.v.deadline.Load())
}

// Watch returns the deadline together with a channel that is closed as soon as
// the deadline is moved or the grant is ended before it.
func (t Term) Watch() (deadline Instant, changed <-chan struct{}) {
	if t.v == nil {
		c := make(chan struct{})
		close(c)
		return 0, c
	}
	t.v.mu.Lock()
	defer t.v.mu.Unlock()
	return Instant(t.v.deadline.Load()), t.v.changed
}

// Check returns nil while the grant is certainly valid, and a *[TermOverError]
// from then on. It reads the clock, so its answer is right also after the
// process was stopped or the machine suspended. It costs about a microsecond.
func (t Term) Check() error {
	if t.v == nil {
		return t.over(nil)
	}
	if why := t.v.ended.Load(); why != nil {
		return t.over(*why)
	}
	if boottime.Now() >= t.Deadline() {
		return t.over(nil)
	}
	return nil
}

func (t Term) over(why error) error {
	return &TermOverError{Election: t.Election, Role: t.Role, Epoch: t.Epoch, Why: why}
}

// Environ returns the term's facts as environment variables in the form
// "key=value", for handlers that run something outside Go. The deadline is not
// among them: it moves, and an environment cannot.
func (t Term) Environ() []string {
	return []string{
		"LEADERBRIDGE_CLUSTER=" + t.Election.Cluster,
		"LEADERBRIDGE_NAMESPACE=" + t.Election.Namespace,
		"LEADERBRIDGE_LEASE=" + t.Election.Lease,
		"LEADERBRIDGE_ELECTION=" + t.Election.Namespace + "/" + t.Election.Lease,
		"LEADERBRIDGE_ROLE=" + t.Role,
		"LEADERBRIDGE_EPOCH=" + strconv.FormatUint(t.Epoch, 10),
		"LEADERBRIDGE_LEADER=" + t.Leader,
		"LEADERBRIDGE_IDENTITY=" + t.Identity,
	}
}

// ErrTermOver is matched by every *[TermOverError].
var ErrTermOver = errors.New("the term is over")

// TermOverError reports that a worker may no longer act.
type TermOverError struct {
	Election events.Election
	Role     string
	Epoch    uint64
	// Why says what ended the grant before its time; nil when it lapsed.
	Why error
}

func (e *TermOverError) Error() string {
	why := "the grant has lapsed"
	if e.Why != nil {
		why = e.Why.Error()
	}
	return fmt.Sprintf("the term is over: role %q of %s/%s, epoch %d: %s",
		e.Role, e.Election.Namespace, e.Election.Lease, e.Epoch, why)
}

// Unwrap returns what ended the grant.
func (e *TermOverError) Unwrap() error { return e.Why }

// Is makes errors.Is match [ErrTermOver].
func (e *TermOverError) Is(target error) bool { return target == ErrTermOver }

// extend moves the deadline forward. It reports false, and changes nothing,
// when the term is over: what has been reported as over stays over.
func (v *validity) extend(deadline Instant) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := Instant(v.deadline.Load())
	if v.ended.Load() != nil || boottime.Now() >= old {
		return false
	}
	if deadline > old {
		v.deadline.Store(int64(deadline))
		v.signalLocked()
	}
	return true
}

func (v *validity) end(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended.CompareAndSwap(nil, &why) {
		v.signalLocked()
	}
}

func (v *validity) signalLocked() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// remaining is how long the term goes on without being prolonged.
func (v *validity) remaining() time.Duration {
	return boottime.Until(Instant(v.deadline.Load()))
}
