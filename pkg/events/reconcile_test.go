package events

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	someElection = Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}
	someEpoch    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	witness      = Reporter{Identity: "w", Perspective: ByWitness}
)

// at is a moment so many seconds into a test's history.
func at(seconds int) time.Time { return someEpoch.Add(time.Duration(seconds) * time.Second) }

// held is the state of a record: who holds it, since when, at which revision.
func held(holder string, acquired int, revision uint64, more ...func(*Observed)) Observed {
	return with(Observed{
		Status: Held, UID: "u1", Holder: holder, Revision: revision, At: at(int(revision)),
		AcquireTime: at(acquired), LeaseDurationSeconds: new(15),
	}, more...)
}

func with(o Observed, more ...func(*Observed)) Observed {
	for _, f := range more {
		f(&o)
	}
	return o
}

func lapsed(o *Observed)    { o.Status = Lapsed }
func own(o *Observed)       { o.Own = true }
func gap(o *Observed)       { o.Gap = true }
func confirmed(o *Observed) { o.Confirmed = true }
func anonymous(o *Observed) { o.AcquireTime = time.Time{} }
func uid(u string) func(*Observed) {
	return func(o *Observed) { o.UID = u }
}
func transitions(n int) func(*Observed) {
	return func(o *Observed) { o.LeaseTransitions = new(n) }
}
func missed(n uint64) func(*Observed) {
	return func(o *Observed) { o.Missed = n }
}
func epoch(n uint64, own bool) func(*Observed) {
	return func(o *Observed) { o.EpochFloor, o.EpochIsOwn = n, own }
}
func ended(r Reason) func(*Observed) {
	return func(o *Observed) { o.Status, o.Own, o.Reason = Ended, true, r }
}

func free(revision uint64, more ...func(*Observed)) Observed {
	return with(Observed{Status: Free, UID: "u1", Revision: revision, At: at(int(revision))}, more...)
}

func absent(revision uint64, more ...func(*Observed)) Observed {
	return with(Observed{Status: Absent, Revision: revision, At: at(int(revision))}, more...)
}

// told is a short form of events: transition(epoch, reason, leader) and what is
// out of the ordinary.
func told(events []Event) string {
	var lines []string
	for _, e := range events {
		who := e.Leader
		if e.Transition == StoppedLeading {
			who = e.PreviousLeader
		}
		line := fmt.Sprintf("%s(%d %s %s)", map[Transition]string{
			BecameLeader: "became", StoppedLeading: "stopped", NewLeader: "new",
		}[e.Transition], e.Epoch, who, e.Reason)
		if e.Missed > 0 {
			line += fmt.Sprintf(" missed %d", e.Missed)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// written is the tail of a log after the states were reconciled into it.
func written(tb testing.TB, states ...Observed) Tail {
	tb.Helper()
	tail, _ := reconciled(tb, Tail{}, states...)
	return tail
}

func reconciled(tb testing.TB, tail Tail, states ...Observed) (Tail, []Event) {
	tb.Helper()
	var all []Event
	for _, o := range states {
		events := Reconcile(someElection, tail, o, witness)
		for _, e := range events {
			if e.Election != someElection || e.UID == "" || e.Epoch == 0 || e.Time.IsZero() || e.Reason == "" || e.Reporter == "" || e.Perspective == "" {
				tb.Fatalf("incomplete event %+v", e)
			}
			tail = Tail{Seq: tail.Seq + 1, Last: e}
		}
		if again := Reconcile(someElection, tail, o, witness); len(again) > 0 {
			tb.Fatalf("reconciling %+v again gives %s", o, told(again))
		}
		all = append(all, events...)
	}
	return tail, all
}

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name   string
		log    []Observed // what the log was made from
		states []Observed
		want   string
	}{
		{"first holder", nil, []Observed{held("a", 1, 1)}, "became(1 a acquired), new(1 a acquired)"},
		{"nobody yet", nil, []Observed{absent(0), absent(3), free(4)}, ""},
		{"renewals", []Observed{held("a", 1, 1)}, []Observed{held("a", 1, 2), held("a", 1, 99)}, ""},
		{"clean hand-over", []Observed{held("a", 1, 1)}, []Observed{free(5), held("b", 6, 6)},
			"stopped(1 a released), became(2 b acquired), new(2 b acquired)"},
		{"crash", []Observed{held("a", 1, 1)}, []Observed{held("a", 1, 4, lapsed), held("b", 6, 6)},
			"stopped(1 a expired), became(2 b taken-over), new(2 b taken-over)"},
		{"overwritten", []Observed{held("a", 1, 1)}, []Observed{held("b", 6, 6)},
			"stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)"},
		{"deleted and created by another", []Observed{held("a", 1, 1)}, []Observed{absent(5), held("b", 6, 6, uid("u2"))},
			"stopped(1 a deleted), became(2 b acquired), new(2 b acquired)"},
		{"recreated by the live leader", []Observed{held("a", 1, 1)}, []Observed{held("a", 1, 6, uid("u2"))}, ""},
		{"same identity restarted", []Observed{held("a", 1, 1)}, []Observed{held("a", 5, 6)},
			"stopped(1 a superseded), became(2 a taken-over), new(2 a taken-over)"},
		{"identity that another begins with", []Observed{held("app-1", 1, 1)}, []Observed{held("app-10", 1, 6)},
			"stopped(1 app-1 superseded), became(2 app-10 taken-over), new(2 app-10 taken-over)"},
		{"back after expiry", []Observed{held("a", 1, 1), held("a", 1, 1, lapsed)}, []Observed{held("a", 1, 6)},
			"became(2 a resumed), new(2 a resumed)"},
		{"still lapsed", []Observed{held("a", 1, 1), held("a", 1, 1, lapsed)}, []Observed{held("a", 1, 1), held("a", 1, 9, lapsed)}, ""},
		{"back after deletion", []Observed{held("a", 1, 1), absent(5)}, []Observed{held("a", 1, 6, uid("u2"))},
			"became(2 a resumed), new(2 a resumed)"},
		{"nobody in the record", []Observed{held("a", 1, 1)}, []Observed{held("", 5, 6)}, "stopped(1 a released)"},
		{"the empty holder lapses", nil, []Observed{held("", 5, 6, lapsed)}, ""},
		{"an end of nobody", []Observed{held("a", 1, 1)}, []Observed{held("", 1, 6, ended(Released))}, ""},

		{"own end", []Observed{held("a", 1, 1)}, []Observed{held("a", 1, 1, ended(StepDown))}, "stopped(1 a step-down)"},
		{"own end without a reason", []Observed{held("a", 1, 1)}, []Observed{held("a", 1, 1, ended(""))}, "stopped(1 a superseded)"},
		{"renewals in flight after the own end", []Observed{held("a", 1, 1), held("a", 1, 1, ended(Released))},
			[]Observed{held("a", 1, 5), held("a", 1, 5, confirmed), held("a", 1, 5, lapsed), free(7)}, ""},
		{"own end after a renewal somebody saw", []Observed{held("a", 1, 1), held("a", 1, 1, lapsed), held("a", 1, 5)},
			[]Observed{held("a", 1, 1, ended(RenewDeadline))}, "stopped(2 a renew-deadline)"},
		{"record left standing after the own end", []Observed{held("a", 1, 1), held("a", 1, 1, ended(RenewDeadline))},
			[]Observed{held("b", 5, 5)}, "became(2 b taken-over), new(2 b taken-over)"},
		{"whole term told at its end", []Observed{held("a", 1, 1)}, []Observed{held("b", 5, 6, ended(Unhealthy))},
			"stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over), stopped(2 b unhealthy)"},
		{"whole term told at its lapse", []Observed{held("a", 1, 1), free(3)}, []Observed{held("b", 5, 6, lapsed)},
			"became(2 b acquired), new(2 b acquired), stopped(2 b expired)"},

		{"lagging: an earlier holder", []Observed{held("b", 5, 6)}, []Observed{held("a", 1, 4), held("a", 1, 4, lapsed), free(5), absent(5)}, ""},
		{"lagging: an earlier holder's own word", []Observed{held("b", 5, 6)}, []Observed{held("a", 1, 4, own), held("a", 1, 4, ended(Released))}, ""},
		{"lagging: an earlier lapse", []Observed{held("a", 1, 1), held("a", 1, 1, lapsed), held("a", 1, 5)}, []Observed{held("a", 1, 1, lapsed)}, ""},
		{"lagging: after an end", []Observed{held("a", 1, 1), free(5)}, []Observed{held("a", 1, 3)}, ""},
		{"lagging: absent just before it was recreated", []Observed{held("a", 1, 1), held("b", 6, 6, uid("u2"))}, []Observed{absent(6)}, ""},
		{"absent just before it was recreated", []Observed{held("a", 1, 1)}, []Observed{absent(6), held("b", 6, 6, uid("u2"))},
			"stopped(1 a deleted), became(2 b acquired), new(2 b acquired)"},
		{"no revision", []Observed{held("a", 1, 3)}, []Observed{absent(0)}, ""},
		{"no revision, confirmed", []Observed{held("a", 1, 3)}, []Observed{absent(0, confirmed)}, "stopped(1 a deleted)"},
		{"store set back", []Observed{held("b", 5, 60)}, []Observed{held("a", 1, 4, confirmed)},
			"stopped(1 b superseded), became(2 a taken-over), new(2 a taken-over)"},
		{"confirmed, and unchanged since the lapse", []Observed{held("a", 1, 5), held("a", 1, 5, lapsed)}, []Observed{held("a", 1, 5, confirmed)}, ""},

		{"kubelet: renewals", []Observed{held("n", 0, 1, anonymous)}, []Observed{held("n", 0, 9, anonymous)}, ""},
		{"kubelet: recreated at once", []Observed{held("n", 0, 1, anonymous)}, []Observed{held("n", 0, 9, anonymous, uid("u2"))}, ""},
		{"kubelet: gone and back", []Observed{held("n", 0, 1, anonymous), held("n", 0, 1, anonymous, lapsed)}, []Observed{held("n", 0, 9, anonymous)},
			"became(2 n resumed), new(2 n resumed)"},
		{"kubelet: deleted and back", []Observed{held("n", 0, 1, anonymous), absent(5)}, []Observed{held("n", 0, 9, anonymous, uid("u2"))},
			"became(2 n acquired), new(2 n acquired)"},
		{"no duration never expires", []Observed{held("n", 0, 1)}, []Observed{held("n", 0, 1, lapsed, func(o *Observed) { o.LeaseDurationSeconds = nil })}, ""},

		{"epoch in the record: empty log, own term", nil, []Observed{held("a", 1, 1, epoch(7, true))},
			"became(7 a acquired) missed 6, new(7 a acquired) missed 6"},
		{"epoch in the record: empty log, former term", nil, []Observed{held("a", 1, 1, epoch(7, false))},
			"became(8 a acquired) missed 7, new(8 a acquired) missed 7"},
		{"epoch in the record: log set back, other term", []Observed{held("a", 1, 1)}, []Observed{held("b", 5, 6, epoch(4, true))},
			"stopped(1 a superseded), became(4 b taken-over) missed 2, new(4 b taken-over) missed 2"},
		{"epoch in the record: log set back, same term", []Observed{held("a", 1, 1)}, []Observed{held("a", 1, 6, epoch(2, true))},
			"stopped(1 a superseded), became(2 a resumed), new(2 a resumed)"},
		{"epoch in the record: not yet renewed", []Observed{held("a", 1, 1), held("a", 1, 1, lapsed), held("a", 1, 5)},
			[]Observed{held("a", 1, 6, epoch(1, true))}, ""},
		{"epoch in the record: beyond all numbers", nil, []Observed{held("a", 1, 1, epoch(MaxEpoch+1, true))},
			"became(1 a acquired), new(1 a acquired)"},
		{"epoch in the record: no number left", nil, []Observed{held("a", 1, 1, epoch(MaxEpoch, true)), held("b", 5, 6)},
			fmt.Sprintf("became(%[1]d a acquired) missed %[2]d, new(%[1]d a acquired) missed %[2]d, stopped(%[1]d a superseded)", MaxEpoch, MaxEpoch-1)},

		{"missed: counted", []Observed{held("a", 1, 1, transitions(1))}, []Observed{held("c", 8, 9, transitions(4), gap)},
			"stopped(1 a superseded), became(2 c taken-over) missed 2, new(2 c taken-over) missed 2"},
		{"missed: free again", []Observed{held("a", 1, 1, transitions(1))}, []Observed{free(9, transitions(3), gap), held("d", 10, 10, transitions(4))},
			"stopped(1 a superseded) missed 2, became(2 d acquired), new(2 d acquired)"},
		{"missed: no gap, no count", []Observed{held("a", 1, 1, transitions(1))}, []Observed{held("c", 8, 9, transitions(4))},
			"stopped(1 a superseded), became(2 c taken-over), new(2 c taken-over)"},
		{"missed: another counter", []Observed{held("a", 1, 1, transitions(1))}, []Observed{held("c", 8, 9, transitions(4), gap, uid("u2"))},
			"stopped(1 a superseded), became(2 c taken-over), new(2 c taken-over)"},
		{"missed: none on the first day", nil, []Observed{held("c", 8, 9, transitions(4), gap)}, "became(1 c acquired), new(1 c acquired)"},
		{"missed: not kept", []Observed{held("a", 1, 1)}, []Observed{held("c", 8, 9, gap, missed(3))},
			"stopped(1 a superseded), became(2 c taken-over) missed 3, new(2 c taken-over) missed 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, events := reconciled(t, written(t, c.log...), c.states...)
			if got := told(events); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A writer that crashed between became-leader and new-leader is completed by
// anybody, also by a replica that sees an older or a newer state.
func TestReconcileCompletesACrashedStep(t *testing.T) {
	became := Reconcile(someElection, Tail{}, held("a", 1, 5, own), Reporter{Identity: "a", Perspective: ByWitness})[0]
	tail := Tail{Seq: 1, Last: became}
	for _, c := range []struct {
		state Observed
		want  string
	}{
		{held("a", 1, 9), "new(1 a acquired)"},
		{held("z", 0, 2), "new(1 a acquired)"},
		{absent(0), "new(1 a acquired)"},
		{held("a", 1, 5, lapsed), "new(1 a acquired), stopped(1 a expired)"},
		{held("b", 6, 6), "new(1 a acquired), stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)"},
	} {
		events := Reconcile(someElection, tail, c.state, witness)
		if got := told(events); got != c.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", c.state, got, c.want)
		}
		if e := events[0]; e.Reporter != "w" || e.Perspective != ByWitness || !e.Time.Equal(became.Time) || e.UID != became.UID {
			t.Errorf("new-leader is %+v", e)
		}
	}
}

// A tail that cannot be read, or was written by something else, is no reason to
// stop.
func TestReconcileAfterAStrangeTail(t *testing.T) {
	for _, last := range []Event{{}, {Transition: "something", Epoch: 3}, {Transition: NewLeader, Epoch: 3}} {
		events := Reconcile(someElection, Tail{Seq: 9, Last: last}, held("a", 1, 1), witness)
		if len(events) != 2 || events[0].Epoch != last.Epoch+1 {
			t.Errorf("after %+v: %s", last, told(events))
		}
	}
}

func TestReconcileFields(t *testing.T) {
	tail := written(t, held("a", 1, 1, transitions(3)))
	me := Reporter{Identity: "b", Perspective: ByWitness}
	stop := Reconcile(someElection, tail, free(5, transitions(3)), me)[0]
	if stop.Leader != "" || stop.PreviousLeader != "a" || stop.Perspective != ByWitness || !stop.Time.Equal(at(5)) ||
		!stop.AcquireTime.Equal(at(1)) || *stop.LeaseTransitions != 3 || stop.Revision != 5 || stop.LeaderlessMillis != nil {
		t.Errorf("stopped-leading is %+v", stop)
	}
	start := Reconcile(someElection, Tail{Seq: 3, Last: stop}, held("b", 6, 7, own, transitions(4)), me)
	for _, e := range start {
		if e.Leader != "b" || e.PreviousLeader != "a" || e.Perspective != ByLeader || !e.Time.Equal(at(7)) ||
			*e.LeaseTransitions != 4 || *e.LeaderlessMillis != 2000 || e.Revision != 7 {
			t.Errorf("%s is %+v", e.Transition, e)
		}
	}

	// What the record does not have is left out.
	bare := Observed{Status: Held, UID: "u1", Revision: 1, Holder: "n", At: at(1)}
	for _, e := range Reconcile(someElection, Tail{}, bare, me) {
		if e.LeaseTransitions != nil || e.LeaseDurationSeconds != nil || !e.AcquireTime.IsZero() || !e.RenewTime.IsZero() || e.LeaderlessMillis != nil {
			t.Errorf("%s has fields that the record has not: %+v", e.Transition, e)
		}
	}
}

// Where the beginning of a state was not seen, the record's times tell it;
// clocks that are ahead do not move it past the moment it was seen.
func TestReconcileTimes(t *testing.T) {
	renewed := func(seconds int) func(*Observed) {
		return func(o *Observed) { o.RenewTime = at(seconds) }
	}
	seen := func(seconds int) func(*Observed) {
		return func(o *Observed) { o.At = at(seconds) }
	}
	for _, c := range []struct {
		name  string
		state Observed
		want  time.Time
	}{
		{"start seen", held("b", 40, 50), at(50)},
		{"start not seen", held("b", 40, 50, gap), at(40)},
		{"start not seen, clock ahead", held("b", 70, 50, gap), at(50)},
		{"lapse seen", held("a", 1, 50, lapsed, renewed(30)), at(50)},
		{"lapse not seen", held("a", 1, 50, lapsed, renewed(30), gap), at(45)},
		{"lapse not seen, clock ahead", held("a", 1, 50, lapsed, renewed(49), gap), at(50)},
		{"release not seen", free(50, gap, renewed(20)), at(20)},
		{"own end, told late", held("a", 1, 5, ended(Released), seen(60)), at(60)},
	} {
		if got := Reconcile(someElection, written(t, held("a", 1, 1)), c.state, witness)[0].Time; !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
