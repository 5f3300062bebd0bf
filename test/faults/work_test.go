package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// unit is one unit of work that a command has recorded.
type unit struct {
	pid    int
	epoch  uint64
	worker string
	at     boottime.Instant
}

func parseUnit(line string) (u unit, err error) {
	if _, err := fmt.Sscanf(line, "%d %d %s %d", &u.pid, &u.epoch, &u.worker, &u.at); err != nil {
		return unit{}, fmt.Errorf("read the unit of work %q: %w", line, err)
	}
	return u, nil
}

// parseWork reads a record, and puts it in the order of time.
func parseWork(text string) ([]unit, error) {
	var all []unit
	for line := range strings.Lines(text) {
		u, err := parseUnit(line)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	slices.SortStableFunc(all, func(a, b unit) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

// runs counts how often the command was run.
func runs(work []unit) int {
	pids := map[int]bool{}
	for _, u := range work {
		pids[u.pid] = true
	}
	return len(pids)
}

// checkWork proves that no two commands were at work at once, and that epochs
// never fell. A command is at work from its first unit to its last.
func checkWork(work []unit) (faults []string) {
	seen := map[int]bool{}
	var last unit
	for i, u := range work {
		if u.epoch < last.epoch {
			faults = append(faults, fmt.Sprintf("unit %d: %s works in epoch %d after %s in %d", i, u.worker, u.epoch, last.worker, last.epoch))
		}
		if u.pid != last.pid && seen[u.pid] {
			faults = append(faults, fmt.Sprintf("unit %d: process %d of %s (epoch %d) works on after %d of %s (epoch %d) has: they were at work at once",
				i, u.pid, u.worker, u.epoch, last.pid, last.worker, last.epoch))
		}
		seen[u.pid], last = true, u
	}
	return faults
}

// checkTerms proves that nobody works past the term that it works for: not once
// a successor has taken the Lease in an orderly way. After the Lease was
// deleted or overwritten workers may use their grants to the end, and the
// successor gives none until then.
func checkTerms(work []unit, terms []term, log []entry, wall func(boottime.Instant) time.Time) (faults []string) {
	const slack = 20 * time.Millisecond // of the two clocks against each other
	epochs := map[string]uint64{}       // the last number of each term
	for _, e := range log {
		if e.Transition == events.BecameLeader {
			epochs[e.key()] = max(epochs[e.key()], e.Epoch)
		}
	}
	last := map[uint64]unit{} // of each epoch
	for _, u := range work {
		last[u.epoch] = u
	}
	for i := 1; i < len(terms); i++ {
		before, after := terms[i-1], terms[i]
		epoch, ok := epochs[before.key()]
		if !ok || before.deleted || before.how == "deleted" || before.how == "overwritten" || after.holder == intruder {
			continue
		}
		for _, u := range last {
			if u.epoch <= epoch && wall(u.at).After(after.acquired.Add(slack)) {
				faults = append(faults, fmt.Sprintf("%s works in epoch %d %s after %s took the Lease", u.worker, u.epoch, wall(u.at).Sub(after.acquired), after.key()))
				break
			}
		}
	}
	return faults
}
