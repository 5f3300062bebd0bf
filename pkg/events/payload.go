package events

import (
	"fmt"
	"strconv"
)

// appendPayload writes the event's data as JSON. Its members and their order
// are the contract of docs/events.md.
func appendPayload(b []byte, e Event) []byte {
	o := beginObject(b)
	o.text("cluster", e.Election.Cluster)
	o.text("namespace", e.Election.Namespace)
	o.text("lease", e.Election.Lease)
	o.text("uid", e.UID)
	o.number("epoch", e.Epoch)

	o.text("leader", e.Leader)
	if e.PreviousLeader != "" {
		o.text("previousLeader", e.PreviousLeader)
	}
	o.text("reason", string(e.Reason))
	o.number("missed", e.Missed)

	if e.LeaseTransitions != nil {
		o.raw("leaseTransitions", strconv.Itoa(*e.LeaseTransitions))
	}
	if e.LeaseDurationSeconds != nil {
		o.raw("leaseDurationSeconds", strconv.Itoa(*e.LeaseDurationSeconds))
	}
	if !e.AcquireTime.IsZero() {
		o.time("acquireTime", e.AcquireTime)
	}
	if !e.RenewTime.IsZero() {
		o.time("renewTime", e.RenewTime)
	}
	if e.LeaderlessMillis != nil {
		o.raw("leaderlessMillis", strconv.FormatInt(*e.LeaderlessMillis, 10))
	}

	o.text("reporter", e.Reporter)
	o.text("perspective", string(e.Perspective))
	if e.Revision != 0 {
		// A string, because it may exceed the 53 bits that a JSON number keeps
		// in most languages; Kubernetes writes its resourceVersion likewise.
		o.text("revision", strconv.FormatUint(e.Revision, 10))
	}
	return o.end()
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
