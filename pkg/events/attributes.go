package events

import (
	"fmt"
	"strconv"
	"strings"
)

// DataSchema is the URI of the JSON Schema that describes an event's data. Its
// text is docs/schema/transition.v1.json.
const DataSchema = "https://leaderbridge.io/schema/transition.v1.json"

// epochKey is the extension that holds a term's number.
const epochKey = "epoch"

const (
	typePrefix = "io.leaderbridge."
	typeSuffix = ".v1"
)

// Type returns the CloudEvents type, such as io.leaderbridge.became-leader.v1.
func (e Event) Type() string { return typePrefix + string(e.Transition) + typeSuffix }

// ID returns the CloudEvents id, <uid>.<epoch>.<transition>. Whoever reports a
// transition gives it the same id, and no other transition of the election has
// it: epochs are never used twice.
func (e Event) ID() string {
	return e.UID + "." + strconv.FormatUint(e.Epoch, 10) + "." + string(e.Transition)
}

// Who returns the identity that the event is about: who began to lead, or who
// ceased to.
func (e Event) Who() string {
	if e.Transition == StoppedLeading {
		return e.PreviousLeader
	}
	return e.Leader
}

// UnknownTypeError reports an event that is well-formed but of a type that this
// version does not know: the work of another program, or of a later version.
// A consumer can skip it.
type UnknownTypeError struct{ Type string }

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("event type %s is not known", quote(e.Type))
}

func parseType(s string) (Transition, error) {
	if name, ok := strings.CutPrefix(s, typePrefix); ok {
		if name, ok := strings.CutSuffix(name, typeSuffix); ok {
			if t := Transition(name); t.known() {
				return t, nil
			}
		}
	}
	return "", &UnknownTypeError{Type: s}
}
