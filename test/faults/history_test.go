package faults

import (
	"fmt"
	"slices"
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
	// deleted: its record was deleted, and made anew by its holder.
	deleted bool
	// noted is the epoch that its first record told, whosever that was.
	noted uint64
	// uid is that of its first record: another one means another counter.
	uid string
}

func (t term) key() string { return key(t.holder, t.acquired) }

func key(holder string, acquired time.Time) string {
	return holder + "@" + acquired.UTC().Format(time.RFC3339Nano)
}

// entry is one event of the log. era counts how often the log's stream had been
// made when it was stored: whoever deletes the stream takes all its events.
type entry struct {
	events.Event
	seq    uint64
	stored time.Time
	era    int
}

func (e entry) key() string { return key(e.Leader, e.AcquireTime) }

// checkLease proves from the Lease's own history that nobody took it before
// its holder had released it or had let it run out. All clocks are this
// machine's. What an operator did to the Lease is no fault of a candidate. A
// process may take anew what it holds itself, as when it does not know what
// became of its first try: identities are those of processes here.
func checkLease(terms []term) (faults []string) {
	const slack = 50 * time.Millisecond // renew times are written before they are sent
	for i := 1; i < len(terms); i++ {
		before, after := terms[i-1], terms[i]
		if before.how != "" || after.holder == intruder || after.holder == before.holder {
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
// otherwise. A log that was made anew begins with whoever leads, says that what
// came before is missing, and goes on with the numbers: none is ever given to
// two terms. That holds as long as the Lease or the log has the number: who
// begins a new log in a Lease that was deleted, too, and has not seen the former
// ones, can only know what the leaders' bucket shows, which may be behind.
func checkLog(terms []term, log []entry) (faults []string) {
	noted := map[string]uint64{}
	for _, t := range terms {
		noted[t.key()] = t.noted
	}
	fault := func(i int, format string, args ...any) {
		e := log[i]
		faults = append(faults, fmt.Sprintf("event %d (%s, epoch %d, %s): %s", i, e.Transition, e.Epoch, e.Who(), fmt.Sprintf(format, args...)))
	}
	ids, given := map[string]bool{}, map[uint64]string{}
	var last, open string // the last term, and who leads
	var epoch uint64
	for i, e := range log {
		fresh := i == 0 || e.era != log[i-1].era
		if fresh {
			clear(ids)
			open = ""
		}
		if i > 0 && e.era < log[i-1].era {
			fault(i, "is of an older log than the event before")
		}
		if ids[e.ID()] {
			fault(i, "its id stands twice")
		}
		ids[e.ID()] = true
		switch e.Transition {
		case events.BecameLeader:
			if open != "" {
				fault(i, "%s still leads", open)
			}
			// Whoever makes a log anew may not know that what it saw had been
			// told. It is no harm, as long as each term keeps its number.
			again := fresh && given[e.Epoch] == e.key()
			if lost := fresh && noted[e.key()] < epoch; lost && e.Epoch <= epoch && !again {
				again = true
				clear(given)
			}
			if e.Epoch <= epoch && !again {
				fault(i, "follows epoch %d of %s", epoch, last)
			}
			if !fresh && e.Epoch != epoch+1 && e.Missed == 0 {
				fault(i, "follows epoch %d, and nothing is missed", epoch)
			}
			if fresh && e.Missed+1 < e.Epoch {
				fault(i, "is the first of a log, and only %d are missed", e.Missed)
			}
			if of := given[e.Epoch]; of != "" && of != e.key() {
				fault(i, "its number is that of %s", of)
			}
			given[e.Epoch] = e.key()
			epoch, open, last = e.Epoch, e.Leader, e.key()
		case events.NewLeader:
			if e.Epoch != epoch || e.Leader != open || fresh || log[i-1].Transition != events.BecameLeader {
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
// log, or is accounted for by missed between the terms before and after it. Not
// promised is that where the Lease was made anew meanwhile: who has not seen the
// terms before cannot count them, and may lead and write before those who have.
func checkComplete(terms []term, log []entry) (faults []string) {
	first, last := map[string]int{}, map[string]int{} // where a term begins in the log
	for i, e := range log {
		if e.Transition != events.BecameLeader {
			continue
		}
		if _, ok := first[e.key()]; !ok {
			first[e.key()] = i
		}
		last[e.key()] = i
	}
	var lost []string
	uids := map[string]bool{} // since the last term that is in the log
	from := -1                // where the last term that is in the log begins there
	for i, t := range terms {
		at, ok := first[t.key()]
		uids[t.uid] = true
		if !ok && t.how == "" && i+1 < len(terms) && terms[i+1].holder == t.holder {
			// Its holder took the Lease once more, since it did not know what
			// had become of its first try. It never led in that one.
			continue
		}
		if !ok {
			lost = append(lost, t.key())
			continue
		}
		if len(lost) > 0 {
			// A term before the hole may be told again after it, in a new log.
			var missed uint64
			for i := from + 1; i <= max(at, last[t.key()]); i++ {
				missed += log[i].Missed
			}
			if missed < uint64(len(lost)) && len(uids) == 1 {
				faults = append(faults, fmt.Sprintf("%d terms are not in the log, and only %d are accounted for as missed: %s", len(lost), missed, strings.Join(lost, ", ")))
			}
			lost = nil
		}
		if at < from {
			faults = append(faults, fmt.Sprintf("%s is in the log before the term before it", t.key()))
		}
		from = at
		clear(uids)
		uids[t.uid] = true
	}
	if len(lost) > 0 {
		faults = append(faults, "the last terms are not in the log: "+strings.Join(lost, ", "))
	}
	return faults
}

// checkStored proves that the log as it is stored now is what a follower was
// given as it grew, of the stream that there is now: nothing that was once
// delivered has gone or become something else.
func checkStored(stored, log []entry) (faults []string) {
	if len(log) == 0 {
		return []string{"nothing was delivered"}
	}
	now := log[len(log)-1].era
	var delivered []entry
	for _, e := range log {
		if e.era == now {
			delivered = append(delivered, e)
		}
	}
	for i, e := range delivered {
		if i >= len(stored) || stored[i].seq != e.seq || stored[i].ID() != e.ID() {
			return []string{fmt.Sprintf("event %d of %d that were delivered, %s at %d, is not the one that is stored there, of %d", i, len(delivered), e.ID(), e.seq, len(stored))}
		}
	}
	return nil
}

// checkReasons proves that each end in the log has a reason that what was done
// to the leader can have led to.
func checkReasons(log []entry, done map[string][]fault, spells []spell) (faults []string) {
	const late = 30 * time.Second // servers may hang, and then do what they were asked for
	for i, e := range log {
		if e.Transition != events.StoppedLeading {
			continue
		}
		may := slices.Clone(shaken)
		if e.Perspective != events.ByLeader {
			// A leader that had to give up releases the Lease as soon as it
			// can, and that is all that others see.
			may = append(may, events.Released)
		}
		for _, f := range done[e.PreviousLeader] {
			may = append(may, f.reasons...)
		}
		for _, s := range spells {
			if !e.Time.Before(s.from) && e.Time.Before(s.to.Add(late)) {
				may = append(may, s.any...)
			}
		}
		if !slices.Contains(may, e.Reason) {
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
