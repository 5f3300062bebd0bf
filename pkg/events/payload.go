package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// payload is the event's data as JSON. Its fields and their order are the
// contract of docs/events.md.
type payload struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Lease     string `json:"lease"`
	UID       string `json:"uid"`
	Epoch     uint64 `json:"epoch"`

	Leader         string `json:"leader"`
	PreviousLeader string `json:"previousLeader,omitempty"`
	Reason         Reason `json:"reason"`
	Missed         uint64 `json:"missed"`

	LeaseTransitions     *int      `json:"leaseTransitions,omitempty"`
	LeaseDurationSeconds *int      `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          time.Time `json:"acquireTime,omitzero"`
	RenewTime            time.Time `json:"renewTime,omitzero"`
	LeaderlessMillis     *int64    `json:"leaderlessMillis,omitempty"`

	Reporter    string      `json:"reporter"`
	Perspective Perspective `json:"perspective"`
	// A string, because it may exceed the 53 bits that a JSON number keeps in
	// most languages; Kubernetes writes its resourceVersion likewise.
	Revision uint64 `json:"revision,omitempty,string"`
}

func payloadOf(e Event) payload {
	return payload{
		Cluster:              e.Election.Cluster,
		Namespace:            e.Election.Namespace,
		Lease:                e.Election.Lease,
		UID:                  e.UID,
		Epoch:                e.Epoch,
		Leader:               e.Leader,
		PreviousLeader:       e.PreviousLeader,
		Reason:               e.Reason,
		Missed:               e.Missed,
		LeaseTransitions:     e.LeaseTransitions,
		LeaseDurationSeconds: e.LeaseDurationSeconds,
		AcquireTime:          e.AcquireTime.UTC(),
		RenewTime:            e.RenewTime.UTC(),
		LeaderlessMillis:     e.LeaderlessMillis,
		Reporter:             e.Reporter,
		Perspective:          e.Perspective,
		Revision:             e.Revision,
	}
}

// object is a JSON object whose members have not been looked at. Its names are
// matched exactly: encoding/json would fill a struct's "epoch" from "Epoch"
// too, and so read another event than everybody else.
type object map[string]json.RawMessage

// membersHint is room for all members that this version writes.
const membersHint = 20

// get stores the member called name in into. A member that is absent or null
// leaves it alone.
func (o object) get(name string, into any) error {
	raw, ok := o[name]
	if !ok || string(raw) == "null" || readPlain(raw, into) {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		// The cause would quote the value in full, however long it is.
		return fmt.Errorf("%s is %s, which has the wrong type or range", name, quote(string(raw)))
	}
	return nil
}

// readPlain stores what nearly every member is: a string without escapes, a
// plain number, or a time. It returns false for all else, which package json
// reads or refuses; asking it for each member took most of the time of Decode.
// raw is a JSON value in UTF-8 that package json has accepted.
func readPlain(raw json.RawMessage, into any) bool {
	switch into := into.(type) {
	case *string:
		return plainString(raw, into)
	case *Reason:
		return plainString(raw, into)
	case *Perspective:
		return plainString(raw, into)
	case *uint64:
		n, err := strconv.ParseUint(string(raw), 10, 64)
		if err == nil {
			*into = n
		}
		return err == nil
	case **int:
		n, err := strconv.Atoi(string(raw))
		if err == nil {
			*into = &n
		}
		return err == nil
	case **int64:
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err == nil {
			*into = &n
		}
		return err == nil
	case *time.Time:
		return into.UnmarshalJSON(raw) == nil
	default:
		return false
	}
}

func plainString[T ~string](raw json.RawMessage, into *T) bool {
	if raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return false
	}
	*into = T(raw[1 : len(raw)-1])
	return true
}

// require is get for a member that has to be there.
func (o object) require(name string, into any) error {
	if raw, ok := o[name]; !ok || string(raw) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	return o.get(name, into)
}

// readPayload fills the event from its data. Members that it does not know are
// passed over: a later version may write more.
func readPayload(data []byte, e *Event) error {
	o := make(object, membersHint)
	if err := json.Unmarshal(data, &o); err != nil || o == nil {
		return fmt.Errorf("data is not a JSON object")
	}
	var revision string
	for _, field := range []struct {
		name     string
		required bool
		into     any
	}{
		{"cluster", true, &e.Election.Cluster},
		{"namespace", true, &e.Election.Namespace},
		{"lease", true, &e.Election.Lease},
		{"uid", true, &e.UID},
		{"epoch", true, &e.Epoch},
		{"leader", true, &e.Leader},
		{"previousLeader", false, &e.PreviousLeader},
		{"reason", true, &e.Reason},
		{"missed", false, &e.Missed},
		{"leaseTransitions", false, &e.LeaseTransitions},
		{"leaseDurationSeconds", false, &e.LeaseDurationSeconds},
		{"acquireTime", false, &e.AcquireTime},
		{"renewTime", false, &e.RenewTime},
		{"leaderlessMillis", false, &e.LeaderlessMillis},
		{"reporter", true, &e.Reporter},
		{"perspective", true, &e.Perspective},
		{"revision", false, &revision},
	} {
		read := o.get
		if field.required {
			read = o.require
		}
		if err := read(field.name, field.into); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	e.AcquireTime = e.AcquireTime.UTC()
	e.RenewTime = e.RenewTime.UTC()
	return parseRevision(revision, &e.Revision)
}

func parseRevision(s string, into *uint64) error {
	if s == "" {
		return nil
	}
	revision, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("data: revision %s is not a decimal number of 64 bits", quote(s))
	}
	*into = revision
	return nil
}
