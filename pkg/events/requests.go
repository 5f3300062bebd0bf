package events

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// StepDownVerb is the last token of the subject on which a leader can be asked
// to hand over.
const StepDownVerb = "step-down"

// RequestSubject returns the subject on which the election's leader answers
// requests of one kind: <prefix>.api.<cluster>.<namespace>.<lease>.<verb>.
// Only a leader answers; without one NATS says that there are no responders.
func (e Election) RequestSubject(prefix, verb string) string {
	return prefix + ".api." + e.KVKey() + "." + verb
}

// StepDownRequest asks a leader to hand over. An empty message is one, too.
type StepDownRequest struct {
	// To is the candidate that should lead next; empty for whoever is first.
	To string `json:"to,omitempty"`
}

// StepDownAnswer says that the leader will hand over. That it has, and to
// whom, is told by the log.
type StepDownAnswer struct {
	Leader string `json:"leader"`
	// Epoch is the number of the term that ends; zero when it is not in the
	// log yet.
	Epoch uint64 `json:"epoch"`
}

// The last tokens of the subjects between a leader and its workers. Grants are
// asked for and given back by requests; a drain and a free role are told by
// plain messages of the leader, which workers subscribe to and may miss. That one
// role is free is told on <free>.<role>, that all may be on <free> itself.
const (
	GrantVerb  = "grant"
	ReturnVerb = "return"
	DrainVerb  = "drain"
	FreeVerb   = "free"
)

// GrantRequest asks the leader for the grant of a role, asks to prolong it, or
// gives it back: each on its own subject.
type GrantRequest struct {
	// Role is what the grant is for; see [ValidateRole].
	Role string `json:"role"`
	// Worker is the worker's identity, for people.
	Worker string `json:"worker"`
	// Instance tells one process from every other, also from one that had the
	// same identity before: the work of that one may still be running.
	Instance string `json:"instance"`
	// Seq rises with every request of an instance. A leader ignores a request
	// that is older than one it has seen, so that messages that arrive late
	// or out of order do no harm.
	Seq uint64 `json:"seq"`
}

// The bounds of a request's texts, in bytes.
const (
	maxWorker   = 512
	maxInstance = 64
)

// Validate tells whether a request is acceptable. Requests come from anybody
// who may publish, so nothing about them is taken for granted.
func (r GrantRequest) Validate() error {
	if err := ValidateRole(r.Role); err != nil {
		return err
	}
	switch {
	case len(r.Worker) == 0 || len(r.Worker) > maxWorker:
		return fmt.Errorf("worker's identity of %d bytes: want 1 to %d", len(r.Worker), maxWorker)
	case len(r.Instance) == 0 || len(r.Instance) > maxInstance:
		return fmt.Errorf("worker's instance of %d bytes: want 1 to %d", len(r.Instance), maxInstance)
	case r.Seq == 0:
		return errors.New("the request has no sequence number")
	}
	return nil
}

// ValidateRole tells whether a role's name is legal: a DNS label, as RFC 1123
// has it.
func ValidateRole(role string) error { return validateLabel("role", role) }

// GrantAnswer gives a grant, or prolongs one.
type GrantAnswer struct {
	// Epoch is the number of the leader's term: the fencing token.
	Epoch  uint64 `json:"epoch"`
	Leader string `json:"leader"`
	// ValidMillis is how long the grant lasts. The worker counts it from the
	// moment it sent the request.
	ValidMillis int64 `json:"validMillis"`
}

// RefusalReason is why a leader gave no grant.
type RefusalReason string

// The reasons for a refusal.
const (
	// RefusedHeld: another worker has the role.
	RefusedHeld RefusalReason = "held"
	// RefusedDraining: the leader is about to hand over.
	RefusedDraining RefusalReason = "draining"
	// RefusedNotYet: the leader has just begun. Its term is not in the log
	// yet, or grants of a former leader may still be running.
	RefusedNotYet RefusalReason = "not-yet"
	// RefusedStale: the leader has seen a later request of this instance.
	RefusedStale RefusalReason = "stale"
	// RefusedInvalid: the request itself is wrong; the same one will never do.
	RefusedInvalid RefusalReason = "invalid"
	// RefusedFull: the leader keeps no more roles.
	RefusedFull RefusalReason = "full"
)

// Refusal is the body of an answer with the header Nats-Service-Error-Code. A
// leader whose term is over does not refuse, it is silent: its successor may be
// answering the same request.
type Refusal struct {
	Reason RefusalReason `json:"reason"`
	// Epoch is that of the leader who refused; zero before it is known.
	Epoch uint64 `json:"epoch,omitempty"`
	// RetryAfterMillis is when asking again may succeed.
	RetryAfterMillis int64 `json:"retryAfterMillis,omitempty"`
	// Holder is the identity of the worker that has the role.
	Holder string `json:"holder,omitempty"`
}

// DrainNotice asks the workers of a term to stop and give their grants back.
type DrainNotice struct {
	Epoch uint64 `json:"epoch"`
}

// FreeNotice says that a role may be asked for. An empty role stands for all:
// there is a new leader, whose term may not be in the log yet.
type FreeNotice struct {
	Role string `json:"role,omitempty"`
}

// SentByServer reports that NATS itself has sent a message: what a consumer
// delivers, its heartbeats, or a message read from a stream. Whoever may ask
// JetStream for something names the subject that the answer goes to, and the
// server does not ask whether they may publish there. So neither a leader nor a
// worker takes such a message for one of the other.
//
// The answers of JetStream's API cannot be told by their form. They have no
// reply subject, so that they are no requests, and none of the fields of a
// [DrainNotice].
func SentByServer(reply string, header nats.Header) bool {
	return strings.HasPrefix(reply, "$JS.") || header.Get("Status") != "" || header.Get("Nats-Stream") != ""
}
