package show

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// ellipsis marks what was left out.
const ellipsis = "…"

// widthOf is the number of columns that a clean text takes.
func widthOf(s string) int {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return ansi.StringWidth(s)
		}
	}
	return len(s) // ten thousand rows of ASCII are the usual case
}

// clean escapes all that is not printable, line breaks and terminal control
// included, as in a Go string.
func clean(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// shorten fits a clean text into a width. Of an identity such as POD_SUFFIX the
// suffix goes first, since the pod's name says more; then the middle of the
// rest, since pods of one deployment differ at their end.
func shorten(s string, width int) string {
	if widthOf(s) <= width {
		return s
	}
	if width <= 1 {
		return ansi.Truncate(s, width, "")
	}
	if name, _, ok := cutLast(s, "_"); ok && widthOf(name)+1 <= width {
		return name + ellipsis
	} else if ok {
		s = name
	}
	left := (width - 1) / 2
	total := widthOf(s)
	for right := width - 1 - left; ; right-- {
		// Characters that combine with their neighbours can be wider alone.
		short := ansi.Cut(s, 0, left) + ellipsis + ansi.Cut(s, total-right, total)
		if right == 0 || widthOf(short) <= width {
			return short
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// age is how long ago a time is, as kubectl writes it. Clocks differ: what
// seems to lie ahead is now.
func age(now, at time.Time) string {
	return duration.HumanDuration(max(now.Sub(at), 0))
}

// millis is a time without a leader.
func millis(ms *int64) string {
	if ms == nil {
		return "-"
	}
	d := time.Duration(*ms) * time.Millisecond
	if d < 10*time.Second {
		return d.String()
	}
	return duration.HumanDuration(d)
}

// leaseLeft is how long the election stays taken at most if nobody renews it
// from now on. The log does not tell of renewals, so under a leader that is a
// whole lease. After an end without a release it counts down to the moment
// from which others may lead.
func leaseLeft(e events.Event, now time.Time) (left time.Duration, known bool) {
	if e.LeaseDurationSeconds == nil {
		return 0, false
	}
	lease := time.Duration(*e.LeaseDurationSeconds) * time.Second
	if e.Leader != "" {
		return lease, true
	}
	switch e.Reason {
	case events.RenewDeadline, events.Superseded:
		if e.RenewTime.IsZero() {
			return 0, false
		}
		return max(e.RenewTime.Add(lease).Sub(now), 0), true
	default:
		return 0, true
	}
}

// leaseLeftText is leaseLeft for people.
func leaseLeftText(e events.Event, now time.Time) string {
	left, known := leaseLeft(e, now)
	switch {
	case !known:
		return "-"
	case e.Leader != "":
		return "≤" + duration.HumanDuration(left)
	case left == 0:
		return "-"
	default:
		return duration.HumanDuration(left)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
