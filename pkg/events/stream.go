package events

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is one respect in which a stream is not as the log needs it.
type Difference struct {
	// Field is the setting's name in the stream's configuration.
	Field string
	// Have is its value, Want what the log needs.
	Have, Want string
	// Fix says what somebody can do about it.
	Fix string
}

// String is one sentence without a final stop.
func (d Difference) String() string {
	return fmt.Sprintf("%s is %s, want %s (%s)", d.Field, d.Have, d.Want, d.Fix)
}

// The API level of a server's stream, which the server itself writes into the
// metadata. Level 1 came with 2.11, the first server that knows the header
// Nats-Expected-Last-Subject-Sequence-Subject. An older one would ignore it
// and check the condition of an append against the wrong subject.
const (
	metadataLevel = "_nats.level"
	leastLevel    = 1
)

// logConfig is the stream that [Log.Ensure] creates.
func (o Options) logConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               o.Stream,
		Description:        "Leadership transitions, one message each",
		Subjects:           []string{o.Prefix + "." + eventToken + ".>"},
		Storage:            jetstream.FileStorage,
		Retention:          jetstream.LimitsPolicy,
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Replicas:           o.Replicas,
	}
}

// subjectsOf matches every event, of whatever election and kind.
func (o Options) subjectsOf() string { return o.Prefix + "." + eventToken + ".*.*.*.*" }

// diffLog compares a stream with what the log needs. What it does not mention
// is left to whoever runs the server: replicas, limits, placement, compression,
// the window for duplicates, atomic publishing.
func diffLog(o Options, have jetstream.StreamConfig) []Difference {
	const recreate = "it cannot be changed: use another stream, or delete this one if nothing in it is needed"
	edit := "nats stream edit " + have.Name
	var d differences
	if level := have.Metadata[metadataLevel]; !atLeast(level, leastLevel) {
		d.add("server", "older than 2.11", "2.11 or later", "upgrade nats-server")
	}
	if !slices.ContainsFunc(have.Subjects, func(s string) bool { return covers(s, o.subjectsOf()) }) {
		d.add("subjects", list(have.Subjects), o.Prefix+"."+eventToken+".>", edit+" --subjects, or another subject prefix")
	}
	// A stream that takes requests in would answer each with the ack of a
	// publish, ahead of whoever was asked.
	api := o.Prefix + ".api.>"
	if slices.ContainsFunc(have.Subjects, func(s string) bool { return overlap(s, api) }) {
		d.add("subjects", list(have.Subjects), "nothing of "+api, edit+" --subjects")
	}
	if have.SubjectTransform != nil && overlap(orAll(have.SubjectTransform.Source), o.subjectsOf()) {
		d.add("subject_transform", strconv.Quote(have.SubjectTransform.Source+" to "+have.SubjectTransform.Destination), "none", edit)
	}
	if have.Mirror != nil {
		d.add("mirror", have.Mirror.Name, "none", recreate)
	}
	if have.Retention != jetstream.LimitsPolicy {
		d.add("retention", strings.ToLower(have.Retention.String()), "limits", recreate)
	}
	if have.Storage != jetstream.FileStorage {
		d.add("storage", strings.ToLower(have.Storage.String()), "file", recreate)
	}
	if have.NoAck {
		d.add("no_ack", "true", "false", edit+" --ack")
	}
	if have.Sealed {
		d.add("sealed", "true", "false", recreate)
	}
	if have.MaxMsgSize > 0 && have.MaxMsgSize < MaxMessage {
		d.add("max_msg_size", strconv.Itoa(int(have.MaxMsgSize)), strconv.Itoa(MaxMessage)+" or more", edit+" --max-msg-size="+strconv.Itoa(MaxMessage))
	}
	if have.DiscardNewPerSubject {
		d.add("discard_new_per_subject", "true", "false, since an election's events come on the same subjects for ever", edit+" --no-discard-per-subject")
	}
	return d
}

type differences []Difference

func (d *differences) add(field, have, want, fix string) {
	*d = append(*d, Difference{Field: field, Have: have, Want: want, Fix: fix})
}

func atLeast(level string, least int) bool {
	n, err := strconv.Atoi(level)
	return err == nil && n >= least
}

func list(subjects []string) string {
	if len(subjects) == 0 {
		return "empty"
	}
	return strings.Join(subjects, " ")
}

func orAll(subject string) string {
	if subject == "" {
		return ">"
	}
	return subject
}

// covers tells whether everything that matches subject matches pattern too.
// Both may have wildcards.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s), s[i] == ">":
			return false
		case token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// overlap tells whether some subject matches both patterns.
func overlap(a, b string) bool {
	p, s := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(p), len(s)) {
		switch {
		case p[i] == ">" || s[i] == ">":
			return true
		case p[i] != "*" && s[i] != "*" && p[i] != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}
