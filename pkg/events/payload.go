package events

import (
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

// readPayload fills the event from its data, which is valid JSON. Members that it does not know are
// passed over: a later version may write more.
func readPayload(data []byte, e *Event) error {
	o, err := splitObject(data)
	if err != nil {
		return fmt.Errorf("data is %w", err)
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
