package events

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"
)

// made is the configuration that a server reports for a stream that it was
// asked to make.
func made(config jetstream.StreamConfig) jetstream.StreamConfig {
	config.Metadata = map[string]string{metadataVersion: "2.12.3"}
	config.MaxMsgSize, config.MaxMsgs, config.MaxBytes = -1, -1, -1
	if config.MaxMsgsPerSubject == 0 {
		config.MaxMsgsPerSubject = -1
	}
	return config
}

func TestDiffLog(t *testing.T) {
	opts, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   []string
	}{
		{"as made", func(*jetstream.StreamConfig) {}, nil},
		{"an operator's business", func(c *jetstream.StreamConfig) {
			c.Replicas, c.MaxMsgs, c.MaxBytes, c.MaxAge, c.Duplicates = 5, 1000, 1<<20, 1e15, 1e9
			c.Discard, c.AllowDirect, c.AllowAtomicPublish, c.Compression = jetstream.DiscardNew, false, false, jetstream.S2Compression
			c.MaxMsgSize, c.MaxMsgsPerSubject = MaxMessage, 10
		}, nil},
		{"more subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"audit.>", "leaderbridge.event.>"} }, nil},
		{"a wider subject", func(c *jetstream.StreamConfig) { c.Subjects = []string{"*.event.>"} }, nil},
		{"an exact subject", func(c *jetstream.StreamConfig) { c.Subjects = []string{"leaderbridge.event.*.*.*.*"} }, nil},
		{"subjects of another prefix", func(c *jetstream.StreamConfig) { c.Subjects = []string{"lb.event.>"} }, []string{"subjects"}},
		{"one cluster only", func(c *jetstream.StreamConfig) { c.Subjects = []string{"leaderbridge.event.default.>"} }, []string{"subjects"}},
		{"no subjects", func(c *jetstream.StreamConfig) { c.Subjects = nil }, []string{"subjects"}},
		{"requests too", func(c *jetstream.StreamConfig) { c.Subjects = []string{"leaderbridge.>"} }, []string{"subjects"}},
		{"everything", func(c *jetstream.StreamConfig) { c.Subjects = []string{">"} }, []string{"subjects"}},
		{"transformed", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "leaderbridge.>", Destination: "x.>"}
		}, []string{"subject_transform"}},
		{"all transformed", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Destination: "x.>"}
		}, []string{"subject_transform"}},
		{"others transformed", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "audit.>", Destination: "x.>"}
		}, nil},
		{"a queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, []string{"retention"}},
		{"by interest, in memory", func(c *jetstream.StreamConfig) {
			c.Retention, c.Storage = jetstream.InterestPolicy, jetstream.MemoryStorage
		}, []string{"retention", "storage"}},
		{"without acks", func(c *jetstream.StreamConfig) { c.NoAck = true }, []string{"no_ack"}},
		{"sealed", func(c *jetstream.StreamConfig) { c.Sealed = true }, []string{"sealed"}},
		{"a mirror", func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "ELSEWHERE"}, nil
		}, []string{"subjects", "mirror"}},
		{"small messages", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1024 }, []string{"max_msg_size"}},
		{"full for ever", func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true }, []string{"discard_new_per_subject"}},
		{"an old server", func(c *jetstream.StreamConfig) { c.Metadata = nil }, []string{"server"}},
		{"a server that confuses headers", func(c *jetstream.StreamConfig) { c.Metadata[metadataVersion] = "2.11.6" }, []string{"server"}},
		{"the oldest server that will do", func(c *jetstream.StreamConfig) { c.Metadata[metadataVersion] = "2.11.7" }, nil},
		{"a server to come", func(c *jetstream.StreamConfig) { c.Metadata[metadataVersion] = "v2.100.0-beta.1" }, nil},
		{"a version that is none", func(c *jetstream.StreamConfig) { c.Metadata[metadataVersion] = "latest" }, []string{"server"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := made(opts.logConfig())
			test.change(&config)
			checkDifferences(t, diffLog(opts, config), test.want)
		})
	}
}

func TestAtomicOn(t *testing.T) {
	for _, test := range []struct {
		version  string
		replicas int
		allowed  bool
		want     bool
	}{
		{"2.15.3", 3, true, true},
		{"2.14.6", 3, true, true},
		{"2.15.3", 1, true, false},
		{"2.15.3", 3, false, false},
		{"2.14.5", 3, true, false},
		{"2.12.99", 3, true, false},
		{"", 3, true, false},
	} {
		config := jetstream.StreamConfig{
			Replicas: test.replicas, AllowAtomicPublish: test.allowed, Metadata: map[string]string{metadataVersion: test.version},
		}
		if got := atomicOn(config); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

func TestDiffView(t *testing.T) {
	opts, err := Options{Prefix: "eu.lb"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   []string
	}{
		{"as made", func(*jetstream.StreamConfig) {}, nil},
		{"with history and replicas", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.Replicas = 20, 5 }, nil},
		{"a plain bucket", func(c *jetstream.StreamConfig) {
			c.Sources, c.Subjects = nil, []string{"$KV.leaderbridge_leaders.>"}
		}, []string{"sources"}},
		{"another prefix", func(c *jetstream.StreamConfig) {
			c.Sources[0].SubjectTransforms[0].Source = "leaderbridge.event.*.*.*.*"
		}, []string{"sources"}},
		{"another stream", func(c *jetstream.StreamConfig) { c.Sources[0].Name = "ELSEWHERE" }, []string{"sources"}},
		{"no bucket", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }, []string{"max_msgs_per_subject"}},
		{"a queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, []string{"retention"}},
		{"takes the log's messages", func(c *jetstream.StreamConfig) { c.Subjects = []string{"eu.>"} }, []string{"subjects"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := made(opts.viewConfig())
			test.change(&config)
			checkDifferences(t, diffView(opts, config), test.want)
		})
	}
}

func checkDifferences(t *testing.T, got []Difference, want []string) {
	t.Helper()
	var fields []string
	for _, d := range got {
		fields = append(fields, d.Field)
		if text := d.String(); d.Have == "" || d.Want == "" || d.Fix == "" || strings.ContainsAny(text, "\n") {
			t.Errorf("difference %q: not one complete line", text)
		}
	}
	if strings.Join(fields, " ") != strings.Join(want, " ") {
		t.Errorf("differences in %v, want %v", fields, want)
	}
}

// matches is the dull definition of what a subject pattern matches.
func matches(pattern, subject []string) bool {
	switch {
	case len(pattern) == 0:
		return len(subject) == 0
	case pattern[0] == ">":
		return len(subject) > 0
	case len(subject) == 0 || pattern[0] != "*" && pattern[0] != subject[0]:
		return false
	default:
		return matches(pattern[1:], subject[1:])
	}
}

// Over an alphabet of two tokens and a third that no pattern names, subjects up
// to five tokens long show every difference between patterns of three.
func TestCoversAndOverlap(t *testing.T) {
	var subjects [][]string
	var grow func(prefix []string)
	grow = func(prefix []string) {
		if len(prefix) > 0 {
			subjects = append(subjects, prefix)
		}
		if len(prefix) < 5 {
			for _, token := range []string{"a", "b", "c"} {
				grow(append(slices.Clip(prefix), token))
			}
		}
	}
	grow(nil)
	pattern := rapid.Custom(func(t *rapid.T) []string {
		p := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*"}), 1, 3).Draw(t, "tokens")
		if rapid.Bool().Draw(t, "open") {
			p[len(p)-1] = ">"
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		p, q := pattern.Draw(t, "p"), pattern.Draw(t, "q")
		wantCovers, wantOverlap := true, false
		for _, s := range subjects {
			inP, inQ := matches(p, s), matches(q, s)
			wantCovers = wantCovers && (inP || !inQ)
			wantOverlap = wantOverlap || inP && inQ
		}
		text, other := strings.Join(p, "."), strings.Join(q, ".")
		if got := covers(text, other); got != wantCovers {
			t.Errorf("%s covers %s: %t, want %t", text, other, got, wantCovers)
		}
		if got := overlap(text, other); got != wantOverlap {
			t.Errorf("%s and %s overlap: %t, want %t", text, other, got, wantOverlap)
		}
	})
}

func TestSourceSequence(t *testing.T) {
	for header, want := range map[string]uint64{
		"LEADERBRIDGE 57 leaderbridge.event.*.*.*.* $KV.x.{{wildcard(1)}}": 57,
		"LEADERBRIDGE:abc 7": 7,
		"OTHER 57":           0,
		"LEADERBRIDGE":       0,
		"LEADERBRIDGE x":     0,
		"":                   0,
	} {
		if got := sourceSequence(header, DefaultStream); got != want {
			t.Errorf("source sequence of %q: %d, want %d", header, got, want)
		}
	}
}
