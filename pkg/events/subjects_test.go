package events_test

import (
	"strings"
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"pgregory.net/rapid"
)

func TestSubjectOfTheDesign(t *testing.T) {
	e := events.Election{Cluster: "default", Namespace: "prod", Lease: "kube.scheduler"}
	for _, tc := range []struct{ got, want string }{
		{e.Subject("leaderbridge", events.BecameLeader), "leaderbridge.event.default.prod.kube_scheduler.became-leader"},
		{e.Subject("acme.eu", events.NewLeader), "acme.eu.event.default.prod.kube_scheduler.new-leader"},
		{e.Filter("leaderbridge"), "leaderbridge.event.default.prod.kube_scheduler.*"},
		{e.KVKey(), "default.prod.kube_scheduler"},
		{e.Source(), "/clusters/default/namespaces/prod/leases/kube.scheduler"},
		{e.String(), "prod/kube.scheduler"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

// The coding of names into subjects and keys is reversible for every legal
// name and prefix, and always has the same depth.
func TestSubjectsAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genElection().Draw(t, "election")
		prefix := genPrefix().Draw(t, "prefix")
		transition := genTransition().Draw(t, "transition")
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := events.ValidatePrefix(prefix); err != nil {
			t.Fatal(err)
		}
		subject := e.Subject(prefix, transition)
		if got, want := strings.Count(subject, "."), strings.Count(prefix, ".")+5; got != want {
			t.Fatalf("%s has %d dots, want %d", subject, got, want)
		}
		gotElection, gotTransition, err := events.ParseSubject(prefix, subject)
		if err != nil || gotElection != e || gotTransition != transition {
			t.Fatalf("ParseSubject(%s) = %v, %v, %v", subject, gotElection, gotTransition, err)
		}
		gotElection, err = events.ParseKVKey(e.KVKey())
		if err != nil || gotElection != e {
			t.Fatalf("ParseKVKey(%s) = %v, %v", e.KVKey(), gotElection, err)
		}
	})
}

// Two elections never share a subject, a key or a source.
func TestNamesAreDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// A small alphabet makes near misses frequent.
		name := rapid.StringMatching(`[ab]([-.ab]?[ab]){0,3}`)
		label := rapid.StringMatching(`[ab](-?[ab]){0,2}`)
		gen := rapid.Custom(func(t *rapid.T) events.Election {
			return events.Election{Cluster: label.Draw(t, "c"), Namespace: label.Draw(t, "n"), Lease: name.Draw(t, "l")}
		})
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		if (a == b) != (a.KVKey() == b.KVKey()) || (a == b) != (a.Source() == b.Source()) {
			t.Fatalf("%+v and %+v: keys %s, %s, sources %s, %s", a, b, a.KVKey(), b.KVKey(), a.Source(), b.Source())
		}
	})
}

func TestElectionValidate(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tc := range []struct {
		name      string
		e         events.Election
		complaint string
	}{
		{"legal", events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}, ""},
		{"digits", events.Election{Cluster: "1", Namespace: "2", Lease: "3"}, ""},
		{"dotted lease", events.Election{Cluster: "a", Namespace: "b", Lease: "c.d.e-f"}, ""},
		{"longest lease", events.Election{Cluster: "a", Namespace: "b", Lease: strings.Repeat("a", 253)}, ""},
		{"no cluster", events.Election{Namespace: "b", Lease: "c"}, "cluster is empty"},
		{"no namespace", events.Election{Cluster: "a", Lease: "c"}, "namespace is empty"},
		{"no lease", events.Election{Cluster: "a", Namespace: "b"}, "lease is empty"},
		{"upper case", events.Election{Cluster: "Prod", Namespace: "b", Lease: "c"}, `cluster "Prod" is not`},
		{"dotted cluster", events.Election{Cluster: "a.b", Namespace: "b", Lease: "c"}, `cluster "a.b" is not`},
		{"underscore", events.Election{Cluster: "a", Namespace: "b_c", Lease: "c"}, `namespace "b_c" is not`},
		{"lease with underscore", events.Election{Cluster: "a", Namespace: "b", Lease: "c_d"}, `lease "c_d" is not`},
		{"dash first", events.Election{Cluster: "a", Namespace: "-b", Lease: "c"}, `namespace "-b" is not`},
		{"dash last", events.Election{Cluster: "a", Namespace: "b", Lease: "c-"}, `lease "c-" is not`},
		{"double dot", events.Election{Cluster: "a", Namespace: "b", Lease: "c..d"}, `lease "c..d" is not`},
		{"trailing dot", events.Election{Cluster: "a", Namespace: "b", Lease: "c."}, `lease "c." is not`},
		{"wildcard", events.Election{Cluster: "*", Namespace: "b", Lease: "c"}, `cluster "*" is not`},
		{"full wildcard", events.Election{Cluster: "a", Namespace: "b", Lease: ">"}, `lease ">" is not`},
		{"white space", events.Election{Cluster: "a b", Namespace: "b", Lease: "c"}, `cluster "a b" is not`},
		{"line break", events.Election{Cluster: "a", Namespace: "b", Lease: "c\nd"}, `lease "c\nd" is not`},
		{"scheme", events.Election{Cluster: "a:b", Namespace: "b", Lease: "c"}, `cluster "a:b" is not`},
		{"long cluster", events.Election{Cluster: long, Namespace: "b", Lease: "c"}, "cluster of 64 characters"},
		{"long namespace", events.Election{Cluster: "a", Namespace: long, Lease: "c"}, "namespace of 64 characters"},
		{"long lease", events.Election{Cluster: "a", Namespace: "b", Lease: strings.Repeat("a", 254)}, "lease of 254 characters"},
	} {
		t.Run(tc.name, func(t *testing.T) { wantComplaint(t, tc.e.Validate(), tc.complaint) })
	}
}

func TestValidatePrefix(t *testing.T) {
	for prefix, complaint := range map[string]string{
		"leaderbridge":           "",
		"acme.eu-west_1":         "",
		"":                       "not usable",
		"a..b":                   "not usable",
		".a":                     "not usable",
		"a.":                     "not usable",
		"a.*":                    "not usable",
		">":                      "not usable",
		"a b":                    "not usable",
		"a\nb":                   "not usable",
		"$JS.API":                "not usable",
		"_INBOX":                 "not usable",
		"ünï":                    "not usable",
		strings.Repeat("a", 129): "too long",
	} {
		t.Run(prefix, func(t *testing.T) { wantComplaint(t, events.ValidatePrefix(prefix), complaint) })
	}
}

func TestParseSubjectRefuses(t *testing.T) {
	for subject, complaint := range map[string]string{
		"":                                         "does not begin with",
		"other.event.a.b.c.became-leader":          "does not begin with",
		"leaderbridge.api.a.b.c.step-down":         "does not begin with",
		"leaderbridge.event.a.b.c":                 "want <cluster>",
		"leaderbridge.event.a.b.c.":                `"" is no transition`,
		"leaderbridge.event.a.b.c.d.became-leader": "want <cluster>.<namespace>.<lease>",
		"leaderbridge.event.a..c.became-leader":    "namespace is empty",
		"leaderbridge.event.*.b.c.became-leader":   `cluster "*"`,
		"leaderbridge.event.a.b.>.became-leader":   `lease ">"`,
		"leaderbridge.event.a.b._c.became-leader":  `lease ".c"`,
		"leaderbridge.event.a_b.b.c.became-leader": `cluster "a_b"`,
		"leaderbridge.event.a.b.c.*":               `"*" is no transition`,
		"leaderbridge.event.a.b.c.Became-Leader":   "is no transition",
	} {
		t.Run(subject, func(t *testing.T) {
			_, _, err := events.ParseSubject("leaderbridge", subject)
			wantComplaint(t, err, complaint)
		})
	}
}

func FuzzParseSubject(f *testing.F) {
	f.Add("leaderbridge", "leaderbridge.event.default.prod.kube_scheduler.became-leader")
	f.Add("a.b", "a.b.event.c.d.e.new-leader")
	f.Add("leaderbridge", "leaderbridge.event.a..b.stopped-leading")
	f.Add("", ".event.a.b.c.new-leader")
	f.Fuzz(func(t *testing.T, prefix, subject string) {
		election, transition, err := events.ParseSubject(prefix, subject)
		if err != nil {
			wantOneLine(t, err)
			return
		}
		if got := election.Subject(prefix, transition); got != subject {
			t.Errorf("%q came back as %q", subject, got)
		}
	})
}

func FuzzParseKVKey(f *testing.F) {
	f.Add("default.prod.kube_scheduler")
	f.Add("a.b.c.d")
	f.Add("a.b._")
	f.Add("a.*.>")
	f.Fuzz(func(t *testing.T, key string) {
		election, err := events.ParseKVKey(key)
		if err != nil {
			wantOneLine(t, err)
			return
		}
		if got := election.KVKey(); got != key {
			t.Errorf("%q came back as %q", key, got)
		}
	})
}

// wantComplaint checks that err says the given words, or that there is none.
func wantComplaint(t *testing.T, err error, words string) {
	t.Helper()
	switch {
	case err == nil && words == "":
	case err == nil:
		t.Errorf("no error, want one about %q", words)
	case words == "" || !strings.Contains(err.Error(), words):
		t.Errorf("error is %q, want one about %q", err, words)
	default:
		wantOneLine(t, err)
	}
}

func wantOneLine(t *testing.T, err error) {
	t.Helper()
	if strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 600 {
		t.Errorf("error is not one readable line: %q", err)
	}
}
