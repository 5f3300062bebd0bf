package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// table is what a run is to be known by.
type table struct {
	seed      uint64
	took      time.Duration
	failovers int
	events    int
	units     int
	handovers int
	// leaderless is the longest time without a leader that the log tells of.
	leaderless time.Duration
	reasons    map[events.Reason]int
	stages     []*stage
}

func (t *table) add(s *stage, log []entry) {
	t.stages = append(t.stages, s)
	t.failovers += max(len(s.history())-1, 0)
	t.events += len(log)
	if t.reasons == nil {
		t.reasons = map[events.Reason]int{}
	}
	for _, e := range log {
		if e.Transition == events.StoppedLeading {
			t.reasons[e.Reason]++
		}
		if e.LeaderlessMillis != nil {
			t.leaderless = max(t.leaderless, time.Duration(*e.LeaderlessMillis)*time.Millisecond)
		}
	}
	if s.crew != nil {
		t.units += s.crew.units
		t.handovers += s.crew.handovers
	}
}

// row counts how often there was a fault, and the failovers that began under
// it: while it lasted, or within a lease after it.
type row struct{ times, failovers int }

func (t *table) rows(ground []spell) (leaders, servers, workers map[string]row) {
	leaders, servers, workers = map[string]row{}, map[string]row{}, map[string]row{}
	for _, g := range ground {
		count(servers, g.kind, 1, 0)
	}
	for _, s := range t.stages {
		for _, f := range s.spells {
			count(leaders, f.kind, 1, 0)
		}
		if s.crew != nil {
			for _, f := range s.crew.spells {
				count(workers, f.kind, 1, 0)
			}
		}
		terms := s.history()
		for _, after := range terms[min(1, len(terms)):] {
			if i := slices.IndexFunc(s.spells, func(f spell) bool { return f.from.After(after.from) }); i != 0 && len(s.spells) > 0 {
				if i < 0 {
					i = len(s.spells)
				}
				count(leaders, s.spells[i-1].kind, 0, 1)
			}
			for _, g := range ground {
				if after.from.After(g.from) && after.from.Before(g.to.Add(lease)) {
					count(servers, g.kind, 0, 1)
				}
			}
		}
	}
	return leaders, servers, workers
}

func count(rows map[string]row, kind string, times, failovers int) {
	r := rows[kind]
	rows[kind] = row{r.times + times, r.failovers + failovers}
}

func (t *table) text(ground []spell) string {
	leaders, servers, workers := t.rows(ground)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d failovers in %d elections in %s, seed %d\n", t.failovers, len(t.stages), t.took.Round(time.Second), t.seed)
	for _, part := range []struct {
		title string
		rows  map[string]row
	}{{"of a leader or its Lease", leaders}, {"of a server", servers}, {"of a worker", workers}} {
		fmt.Fprintf(w, "\nfault %s\ttimes\tfailovers under it\n", part.title)
		for _, kind := range slices.Sorted(maps.Keys(part.rows)) {
			fmt.Fprintf(w, "  %s\t%d\t%d\n", kind, part.rows[kind].times, part.rows[kind].failovers)
		}
	}
	fmt.Fprintf(w, "\nevents checked\t%d\n", t.events)
	fmt.Fprintf(w, "longest time without a leader\t%s\n", t.leaderless)
	fmt.Fprintf(w, "ends by reason\t%v\n", t.reasons)
	fmt.Fprintf(w, "units of work checked\t%d, by %d runs of the command\n", t.units, t.handovers)
	_ = w.Flush()
	return b.String()
}
