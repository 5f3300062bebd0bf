package events

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
