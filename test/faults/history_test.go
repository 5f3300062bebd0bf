package faults

import (
	"fmt"
	"strings"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// term is one reign as the Lease itself shows it.
type term struct {
	holder   string
	acquired time.Time
	// from is when the API server showed the holder first, renewed the last
	// renewal that it showed.
	from, renewed time.Time
	lease         time.Duration
	// how it ended: released, deleted, overwritten, or "" for none of these.
	how string
}

func (t term) key() string { return t.holder + "@" + t.acquired.UTC().Format(time.RFC3339Nano) }

// checkLease proves from the Lease's own history that nobody took it before
// its holder had released it or had let it run out. All clocks are this
// machine's. What an operator did to the Lease is no fault of a candidate.
func checkLease(terms []term) (faults []string) {
	const slack = 50 * time.Millisecond // renew times are written before they are sent
	for i := 1; i < len(terms); i++ {
		before, after := terms[i-1], terms[i]
		if before.how != "" || after.holder == intruder {
			continue
		}
		if end := before.renewed.Add(before.lease); after.acquired.Add(slack).Before(end) {
			faults = append(faults, fmt.Sprintf("%s took the Lease %s before the end of %s", after.key(), end.Sub(after.acquired), before.key()))
		}
	}
	return faults
}

// checkLog proves that the log is legal: per election stopped(n), became(n+1),
// new-leader(n+1), each once, numbers rising by one except where missed says
// otherwise.
func checkLog(log []events.Event) (faults []string) {
	fault := func(i int, format string, args ...any) {
		e := log[i]
		faults = append(faults, fmt.Sprintf("event %d (%s, epoch %d, %s): %s", i, e.Transition, e.Epoch, e.Who(), fmt.Sprintf(format, args...)))
	}
	ids := map[string]bool{}
	var epoch uint64
	open := ""
	for i, e := range log {
		if ids[e.ID()] {
			fault(i, "its id stands twice")
		}
		ids[e.ID()] = true
		switch e.Transition {
		case events.BecameLeader:
			if open != "" {
				fault(i, "%s still leads", open)
			}
			if e.Epoch != epoch+1 && (e.Epoch <= epoch || e.Missed == 0) {
				fault(i, "follows epoch %d", epoch)
			}
			epoch, open = e.Epoch, e.Leader
		case events.NewLeader:
			if e.Epoch != epoch || e.Leader != open || i == 0 || log[i-1].Transition != events.BecameLeader {
				fault(i, "does not follow its became-leader")
			}
		case events.StoppedLeading:
			if e.Epoch != epoch || e.PreviousLeader != open {
				fault(i, "%s leads in epoch %d", open, epoch)
			}
			open = ""
		}
	}
	return faults
}

// checkComplete proves that every term that the Lease went through is in the
// log, or is accounted for by missed.
func checkComplete(terms []term, log []events.Event) (faults []string) {
	logged := map[string]bool{}
	var missed uint64
	for _, e := range log {
		missed += e.Missed
		if e.Transition == events.BecameLeader {
			logged[term{holder: e.Leader, acquired: e.AcquireTime}.key()] = true
		}
	}
	var lost []string
	for _, t := range terms {
		if !logged[t.key()] {
			lost = append(lost, t.key())
		}
	}
	if len(lost) > int(missed) {
		faults = append(faults, fmt.Sprintf("%d terms are not in the log and only %d are accounted for as missed: %s", len(lost), missed, strings.Join(lost, ", ")))
	}
	return faults
}

// checkReasons proves that each end in the log has a reason that what was done
// to the leader can have led to.
func checkReasons(log []events.Event, done map[string][]fault) (faults []string) {
	for i, e := range log {
		if e.Transition != events.StoppedLeading {
			continue
		}
		may := map[events.Reason]bool{}
		for _, f := range done[e.PreviousLeader] {
			for _, r := range f.reasons {
				may[r] = true
			}
		}
		if e.PreviousLeader == intruder {
			may[events.Expired], may[events.Superseded], may[events.Deleted] = true, true, true
		}
		if !may[e.Reason] {
			faults = append(faults, fmt.Sprintf("event %d: %s ended with %s in epoch %d, and what was done to it was %v", i, e.PreviousLeader, e.Reason, e.Epoch, names(done[e.PreviousLeader])))
		}
	}
	return faults
}

func names(fs []fault) (all []string) {
	for _, f := range fs {
		all = append(all, f.name)
	}
	return all
}
