package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// The checks are held against small histories, since a check that lets all pass
// would prove nothing.

func second(n int) time.Time { return time.Date(2026, 5, 1, 12, 0, n, 0, time.UTC) }

// reign is a term that begins at a second and is renewed until another.
func reign(holder string, from, renewed int, how string) term {
	return term{holder: holder, acquired: second(from), from: second(from), renewed: second(renewed), lease: lease, how: how}
}

// begins and stops are the events of a term that began at a second.
func begins(era int, epoch uint64, holder string, at int, missed uint64) []entry {
	e := entry{era: era, Event: events.Event{Transition: events.BecameLeader, UID: "u", Epoch: epoch, Leader: holder, AcquireTime: second(at), Missed: missed}}
	n := e
	n.Transition = events.NewLeader
	n.Missed = 0
	return []entry{e, n}
}

func stops(era int, epoch uint64, holder string, reason events.Reason) []entry {
	return []entry{{era: era, Event: events.Event{Transition: events.StoppedLeading, UID: "u", Epoch: epoch, PreviousLeader: holder, Reason: reason}}}
}

func written(parts ...[]entry) (log []entry) {
	for _, p := range parts {
		log = append(log, p...)
	}
	return log
}

func wantFault(t *testing.T, name string, faults []string, want string) {
	t.Helper()
	switch all := strings.Join(faults, "\n"); {
	case want == "" && all != "":
		t.Errorf("%s: %s", name, all)
	case !strings.Contains(all, want):
		t.Errorf("%s: %q, want %q", name, all, want)
	}
}

func TestCheckLog(t *testing.T) {
	one := begins(1, 1, "a", 1, 0)
	end := stops(1, 1, "a", events.Released)
	for name, tt := range map[string]struct {
		log  []entry
		want string
	}{
		"in order":               {written(one, end, begins(1, 2, "b", 2, 0)), ""},
		"twice":                  {written(one, end, one), "its id stands twice"},
		"no end":                 {written(one, begins(1, 2, "b", 2, 0)), "a still leads"},
		"a silent gap":           {written(one, end, begins(1, 3, "b", 2, 0)), "nothing is missed"},
		"a gap that is told":     {written(one, end, begins(1, 3, "b", 2, 1)), ""},
		"an epoch that falls":    {written(begins(1, 2, "a", 1, 1), stops(1, 2, "a", events.Released), begins(1, 1, "b", 2, 1)), "follows epoch 2"},
		"an end of another":      {written(one, stops(1, 1, "b", events.Released)), "a leads in epoch 1"},
		"news before their time": {written(one[1:]), "does not follow its became-leader"},

		"made anew, told again":    {written(one, begins(2, 1, "a", 1, 0)), ""},
		"made anew, told what was": {written(one, end, begins(2, 2, "b", 2, 1)), ""},
		"made anew, silent":        {written(one, end, begins(2, 2, "b", 2, 0)), "only 0 are missed"},
		"made anew, rewound":       {written(one, end, begins(2, 1, "b", 2, 0)), "follows epoch 1"},
		"made anew, number lost":   {written(one, end, begins(1, 2, "b", 2, 0), stops(1, 2, "b", events.Deleted), begins(2, 1, "d", 4, 0)), ""},
		"made anew, with an end":   {written(one, stops(2, 1, "a", events.Released)), "leads in epoch 1"},
		"of an older log":          {written(begins(2, 1, "a", 1, 0), stops(1, 1, "a", events.Released)), "older log"},
	} {
		// Each term's first record tells the number before it, but that of d.
		terms := []term{reign("a", 1, 1, ""), reign("b", 2, 2, ""), reign("d", 4, 4, "")}
		terms[0].noted, terms[1].noted = 1, 2
		wantFault(t, name, checkLog(terms, tt.log), tt.want)
	}
}

func TestCheckComplete(t *testing.T) {
	terms := []term{reign("a", 1, 1, ""), reign("b", 2, 2, ""), reign("c", 3, 3, "")}
	end := stops(1, 1, "a", events.Released)
	for name, tt := range map[string]struct {
		log  []entry
		want string
	}{
		"all":                  {written(begins(1, 1, "a", 1, 0), end, begins(1, 2, "b", 2, 0), begins(1, 3, "c", 3, 0)), ""},
		"a hole":               {written(begins(1, 1, "a", 1, 0), end, begins(1, 2, "c", 3, 0)), "1 terms are not in the log"},
		"a hole that is told":  {written(begins(1, 1, "a", 1, 0), end, begins(1, 3, "c", 3, 1)), ""},
		"told elsewhere":       {written(begins(1, 1, "a", 1, 5), end, begins(1, 2, "c", 3, 0)), "only 0 are accounted for"},
		"no end":               {written(begins(1, 1, "a", 1, 0), begins(1, 2, "b", 2, 0)), "the last terms"},
		"the wrong order":      {written(begins(1, 1, "b", 2, 0), begins(1, 2, "a", 1, 0), begins(1, 3, "c", 3, 0)), "before the term before it"},
		"a try":                {written(begins(1, 1, "a", 1, 0), end, begins(1, 2, "b", 2, 0), begins(1, 3, "c", 3, 0)), ""},
		"made anew, with loss": {written(begins(1, 1, "a", 1, 0), begins(2, 3, "c", 3, 2)), ""},
	} {
		wantFault(t, name, checkComplete(terms, tt.log), tt.want)
	}
}

func TestCheckCompleteOfALeaseMadeAnew(t *testing.T) {
	terms := []term{reign("a", 1, 1, ""), reign("b", 2, 2, "deleted"), reign("c", 3, 3, "")}
	log := written(begins(1, 1, "a", 1, 0), stops(1, 1, "a", events.Released), begins(1, 2, "c", 3, 0))
	wantFault(t, "the same Lease", checkComplete(terms, log), "1 terms are not in the log")
	terms[2].uid = "another"
	wantFault(t, "another Lease", checkComplete(terms, log), "")
}

func TestCheckLease(t *testing.T) {
	for name, tt := range map[string]struct {
		terms []term
		want  string
	}{
		"lapsed":      {[]term{reign("a", 1, 5, ""), reign("b", 7, 7, "")}, ""},
		"too early":   {[]term{reign("a", 1, 5, ""), reign("b", 6, 6, "")}, "before the end of a"},
		"its own":     {[]term{reign("a", 1, 5, ""), reign("a", 6, 6, "")}, ""},
		"released":    {[]term{reign("a", 1, 5, "released"), reign("b", 5, 5, "")}, ""},
		"overwritten": {[]term{reign("a", 1, 5, "overwritten"), reign(intruder, 5, 5, "")}, ""},
	} {
		wantFault(t, name, checkLease(tt.terms), tt.want)
	}
}

func TestCheckStored(t *testing.T) {
	old, now := begins(1, 1, "a", 1, 0), begins(2, 2, "b", 2, 1)
	now[0].seq, now[1].seq = 3, 4
	log := written(old, now)
	wantFault(t, "as it is", checkStored(now, log), "")
	wantFault(t, "with more since", checkStored(written(now, stops(2, 2, "b", events.Released)), log), "")
	wantFault(t, "gone", checkStored(now[:1], log), "event 1 of 2")
	wantFault(t, "another", checkStored(written(now[1:], now[:1]), log), "event 0 of 2")
}

func TestCheckReasons(t *testing.T) {
	log := stops(1, 1, "a", events.Released)
	log[0].Perspective = events.ByLeader
	log[0].Time = second(5)
	wantFault(t, "stopped", checkReasons(log, map[string][]fault{"a": {{reasons: ends(events.Released)}}}, nil), "")
	wantFault(t, "not stopped", checkReasons(log, map[string][]fault{"a": {{reasons: ends()}}}, nil), "ended with released")
	wantFault(t, "another stopped", checkReasons(log, map[string][]fault{"b": {{reasons: ends(events.Released)}}}, nil), "ended with released")
	whoever := []events.Reason{events.Released}
	wantFault(t, "whoever leads", checkReasons(log, nil, []spell{{"", second(4), second(4), whoever}}), "")
	wantFault(t, "whoever leads later", checkReasons(log, nil, []spell{{"", second(6), second(6), whoever}}), "ended with released")
}

func TestCheckWork(t *testing.T) {
	for name, tt := range map[string]struct {
		work, want string
	}{
		"one after the other": {"7 1 w 10\n7 1 w 11\n8 1 v 12\n", ""},
		"at once":             {"7 1 w 10\n8 1 v 11\n7 1 w 12\n", "at work at once"},
		"written late":        {"7 1 w 10\n8 1 v 12\n7 1 w 11\n", ""},
		"an epoch that falls": {"7 2 w 10\n8 1 v 11\n", "in epoch 1 after"},
	} {
		work, err := parseWork(tt.work)
		if err != nil {
			t.Fatal(err)
		}
		wantFault(t, name, checkWork(work), tt.want)
	}
	if _, err := parseWork("7 1 w\n"); err == nil {
		t.Error("half a line was read")
	}
}

func TestCheckTerms(t *testing.T) {
	log := written(begins(1, 1, "a", 1, 0), begins(1, 2, "b", 5, 0))
	wall := func(i boottime.Instant) time.Time { return second(int(i)) }
	work := []unit{{pid: 7, epoch: 1, worker: "w", at: 6}}
	wantFault(t, "past the term", checkTerms(work, []term{reign("a", 1, 1, ""), reign("b", 5, 5, "")}, log, wall), "after b@")
	wantFault(t, "in the term", checkTerms(work, []term{reign("a", 1, 1, ""), reign("b", 7, 7, "")}, log, wall), "")
	wantFault(t, "overwritten", checkTerms(work, []term{reign("a", 1, 1, "overwritten"), reign("b", 5, 5, "")}, log, wall), "")
}
