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

// The oldest servers on which the log is exact. The ones before would say that
// all is well and write a log full of contradictions. docs/log.md tells how that
// was measured.
var (
	// leastServer is for appends one by one. Servers before 2.11 do not know
	// Nats-Expected-Last-Subject-Sequence-Subject, and check the condition of
	// an append against the wrong subject. Those before 2.11.7 take it for
	// Nats-Expected-Last-Subject-Sequence when it happens to come first among
	// the headers, and then check nothing.
	leastServer = version{2, 11, 7}
	// leastAtomicServer is for batches on replicated streams. Servers before
	// 2.12.14, and from 2.14.0 to 2.14.3, remember the subject of a condition
	// in a buffer that they write over, and so do not find the batch that is
	// under way. Those before 2.14.6 let readers see a part of a batch.
	leastAtomicServer = version{2, 14, 6}
)

// metadataVersion is where the server that leads a stream writes its version.
const metadataVersion = "_nats.ver"

// version is the beginning of a semantic version.
type version [3]int

// parseVersion reads a version, and nothing from what is none.
func parseVersion(s string) version {
	var v version
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	for i, part := range parts {
		digits, _, _ := strings.Cut(part, "-")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return version{}
		}
		v[i] = n
	}
	return v
}

func (v version) before(w version) bool { return slices.Compare(v[:], w[:]) < 0 }

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// atomicOn tells whether steps are to be stored as batches; see [Log.Atomic].
func atomicOn(have jetstream.StreamConfig) bool {
	return have.AllowAtomicPublish && have.Replicas > 1 &&
		!parseVersion(have.Metadata[metadataVersion]).before(leastAtomicServer)
}

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
	if v := have.Metadata[metadataVersion]; parseVersion(v).before(leastServer) {
		if v == "" {
			v = "older than 2.11"
		}
		d.add("server", v, leastServer.String()+" or later", "upgrade every nats-server that has the stream")
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
