package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// timeline shows people what happens.
type timeline struct {
	out   io.Writer
	begun time.Time
}

func (t *timeline) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

func (t *timeline) header(where string) {
	t.printf("%s\n\n%9s  %5s  %-16s %-12s %s\n", where, "seconds", "epoch", "event", "about", "reason")
}

func (t *timeline) event(at time.Time, e events.Event) {
	reason := string(e.Reason)
	if e.Perspective == events.ByWitness {
		reason += ", reported by " + e.Reporter
	}
	t.row(at, e.Epoch, string(e.Transition), e.Who(), reason)
}

func (t *timeline) row(at time.Time, epoch uint64, what, who, why string) {
	line := fmt.Sprintf("%9.3f  %5d  %-16s %-12s %s", at.Sub(t.begun).Seconds(), epoch, what, who, why)
	t.printf("%s\n", strings.TrimRight(line, " "))
}

func (t *timeline) action(a action, who string) {
	t.printf("%9.3f  ----- %s %s\n", time.Since(t.begun).Seconds(), who, a.says)
}

func (t *timeline) handover(took time.Duration) {
	t.printf("%9s         hand-over took %s\n", "", pretty(took))
}

// summary shows the hand-overs of each kind, and how long nobody worked.
func (t *timeline) summary(took map[string][]time.Duration, idle []time.Duration) {
	t.printf("\n%-24s %5s  %9s  %9s  %9s\n", "hand-over", "count", "least", "median", "most")
	for _, a := range actions {
		t.spread(a.label, took[a.name])
	}
	t.spread("workers' pause", idle)
	t.printf("\nFrom the request or the signal to new-leader at a subscriber; for workers from\none's stop to the next start. A crash is noticed when the lease is over, so it\ntakes up to the lease duration of %s.\n", leaseDuration)
}

func (t *timeline) spread(label string, took []time.Duration) {
	d := slices.Sorted(slices.Values(took))
	if len(d) == 0 {
		return
	}
	t.printf("%-24s %5d  %9s  %9s  %9s\n", label, len(d), pretty(d[0]), pretty(d[len(d)/2]), pretty(d[len(d)-1]))
}

func pretty(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
