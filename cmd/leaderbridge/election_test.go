package main

import (
	"strings"
	"testing"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

func TestParseElection(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want events.Election
		err  string
	}{
		{"prod/scheduler", events.Election{Namespace: "prod", Lease: "scheduler"}, ""},
		{"eu/prod/a.b.c", events.Election{Cluster: "eu", Namespace: "prod", Lease: "a.b.c"}, ""},
		{"*/scheduler", events.Election{Lease: "scheduler"}, ""},
		{"eu/*/*", events.Election{Cluster: "eu"}, ""},
		{"scheduler", events.Election{}, "want NAMESPACE/NAME"},
		{"a/b/c/d", events.Election{}, "want NAMESPACE/NAME"},
		{"", events.Election{}, "want NAMESPACE/NAME"},
		{"/x", events.Election{}, "want NAMESPACE/NAME"},
		{"x/", events.Election{}, "want NAMESPACE/NAME"},
		{"//x", events.Election{}, "want NAMESPACE/NAME"},
		{"prod/a_b", events.Election{}, "lease"},
		{"prod/a*", events.Election{}, "lease"},
		{"a.b/c", events.Election{}, "namespace"},
		{"A/b/c", events.Election{}, "cluster"},
	} {
		got, err := parseElection(tc.in)
		switch {
		case tc.err == "" && (err != nil || got != tc.want):
			t.Errorf("%q: %+v, %v", tc.in, got, err)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%q: %v, want %q", tc.in, err, tc.err)
		}
	}
}
