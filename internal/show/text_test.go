package show

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Case 50: identities with odd characters cannot steer the terminal.
func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"pod-a_5f":             "pod-a_5f",
		"ünï 節点":               "ünï 節点",
		"a\nb\tc":              `a\nb\tc`,
		"\x1b[31mred\x1b[0m":   `\x1b[31mred\x1b[0m`,
		"bell\a, it's\u202e!":  `bell\a, it's\u202e!`,
		"\x9b31m":              `�31m`,
		"a\u00a0b zero\u200bw": `a\u00a0b zero\u200bw`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "in")
		if got := clean(in); strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("clean(%q) = %q", in, got)
		}
	})
}

func TestShorten(t *testing.T) {
	for _, tc := range []struct {
		in    string
		width int
		want  string
	}{
		{"pod-a_5f", 8, "pod-a_5f"},
		{"pod-a_5f", 7, "pod-a…"},
		{"scheduler-6d4cf56db6-x2x4z_a25c9c16", 30, "scheduler-6d4cf56db6-x2x4z…"},
		{"scheduler-6d4cf56db6-x2x4z_a25c9c16", 20, "scheduler…6db6-x2x4z"},
		{"kube-system/billing.worker", 20, "kube-syst…ing.worker"},
		{"節点節点節点", 7, "節…節点"},
		{"abc", 1, "a"},
		{"abc", 2, "…c"},
		{"abc", 0, ""},
	} {
		if got := shorten(tc.in, tc.width); got != tc.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", tc.in, tc.width, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := clean(rapid.String().Draw(t, "in"))
		width := rapid.IntRange(0, 40).Draw(t, "width")
		got := shorten(in, width)
		if w := ansi.StringWidth(got); w > width {
			t.Fatalf("shorten(%q, %d) = %q, %d wide", in, width, got, w)
		}
		if widthOf(in) <= width && got != in {
			t.Fatalf("shorten(%q, %d) = %q, although it fits", in, width, got)
		}
	})
}

func TestWidthOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if s := clean(rapid.String().Draw(t, "s")); widthOf(s) != ansi.StringWidth(s) {
			t.Fatalf("widthOf(%q) = %d, want %d", s, widthOf(s), ansi.StringWidth(s))
		}
	})
}

func TestAge(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 100 * time.Hour: "4d4h", -time.Hour: "0s",
	} {
		if got := age(now, now.Add(-d)); got != want {
			t.Errorf("age of %s: %q, want %q", d, got, want)
		}
	}
}

func TestLeaseLeft(t *testing.T) {
	now := time.Now()
	lease := 15
	for _, tc := range []struct {
		name string
		e    events.Event
		want string
	}{
		{"led", events.Event{Leader: "a", LeaseDurationSeconds: &lease, RenewTime: now.Add(-time.Hour)}, "≤15s"},
		{"led, duration unknown", events.Event{Leader: "a"}, "-"},
		{"released", events.Event{Reason: events.Released, LeaseDurationSeconds: &lease, RenewTime: now}, "-"},
		{"expired", events.Event{Reason: events.Expired, LeaseDurationSeconds: &lease, RenewTime: now}, "-"},
		{"gave up, still held", events.Event{Reason: events.RenewDeadline, LeaseDurationSeconds: &lease, RenewTime: now.Add(-10 * time.Second)}, "5s"},
		{"gave up, free now", events.Event{Reason: events.RenewDeadline, LeaseDurationSeconds: &lease, RenewTime: now.Add(-20 * time.Second)}, "-"},
		{"gave up, unknown", events.Event{Reason: events.RenewDeadline, LeaseDurationSeconds: &lease}, "-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := leaseLeftText(tc.e, now); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
