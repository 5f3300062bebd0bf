package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

func TestEventValidate(t *testing.T) {
	for _, tc := range []struct {
		name      string
		bend      func(*events.Event)
		complaint string
	}{
		{"complete", func(*events.Event) {}, ""},
		{"only what is required", func(e *events.Event) {
			*e = events.Event{
				Election: e.Election, Transition: e.Transition, UID: e.UID, Epoch: 1, Time: e.Time,
				Leader: e.Leader, Reason: e.Reason, Reporter: e.Reporter, Perspective: e.Perspective,
			}
		}, ""},
		{"an illegal name", func(e *events.Event) { e.Election.Lease = "a_b" }, `lease "a_b"`},
		{"no transition", func(e *events.Event) { e.Transition = "" }, "transition"},
		{"no uid", func(e *events.Event) { e.UID = "" }, "uid"},
		{"a uid that headers cannot carry", func(e *events.Event) { e.UID = "a\r\nb" }, "uid"},
		{"no epoch", func(e *events.Event) { e.Epoch = 0 }, "epoch 0"},
		{"an epoch beyond 32 bits", func(e *events.Event) { e.Epoch = events.MaxEpoch + 1 }, "epoch 2147483648"},
		{"no time", func(e *events.Event) { e.Time = time.Time{} }, "time is missing"},
		{"a year with five digits", func(e *events.Event) { e.RenewTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "renewTime"},
		{"a start without leader", func(e *events.Event) { e.Leader = "" }, "leader is missing"},
		{"a stop with a leader", func(e *events.Event) { e.Transition, e.Reason = events.StoppedLeading, events.Expired }, "nobody leads after"},
		{"a stop of nobody", func(e *events.Event) {
			e.Transition, e.Reason, e.Leader, e.PreviousLeader = events.StoppedLeading, events.Expired, "", ""
		}, "previousLeader is missing"},
		{"an identity too long", func(e *events.Event) { e.Leader = strings.Repeat("x", events.MaxIdentity+1) }, "leader of 4097 bytes"},
		{"an identity that JSON would change", func(e *events.Event) { e.PreviousLeader = "a\xff" }, "not UTF-8"},
		{"no reporter", func(e *events.Event) { e.Reporter = "" }, "reporter is missing"},
		{"no reason", func(e *events.Event) { e.Reason = "" }, "reason"},
		{"the reason of a stop", func(e *events.Event) { e.Reason = events.Released }, "is for an end"},
		{"the reason of a start", func(e *events.Event) { e.Transition, e.Leader = events.StoppedLeading, "" }, "is for a start"},
		{"no perspective", func(e *events.Event) { e.Perspective = "" }, "perspective"},
		{"an unknown perspective", func(e *events.Event) { e.Perspective = "other" }, "perspective"},
		{"too many missed", func(e *events.Event) { e.Missed = events.MaxEpoch + 1 }, "missed"},
		{"negative transitions", func(e *events.Event) { e.LeaseTransitions = new(-1) }, "leaseTransitions"},
		{"a negative gap", func(e *events.Event) { e.LeaderlessMillis = new(int64(-1)) }, "leaderlessMillis"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := example()
			tc.bend(&e)
			wantComplaint(t, e.Validate(), tc.complaint)
			_, _, err := events.Encode(e, events.Structured)
			wantComplaint(t, err, tc.complaint)
		})
	}
}

func TestEventAttributes(t *testing.T) {
	e := example()
	for _, tc := range []struct{ got, want string }{
		{e.ID(), "5f0b2c34-7d3e-4a19-9a4e-0c9d3f1e8b70.7.became-leader"},
		{e.Type(), "io.leaderbridge.became-leader.v1"},
		{e.Who(), "pod-b_5f3a9c1e"},
		{goldenEvents()["stopped-leading"].Who(), "pod-a_91d0e4b7"},
		{goldenEvents()["new-leader"].Who(), "pod-b_5f3a9c1e"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

// The same transition has the same id and source whoever reports it, and
// another one has another, also for the same holder.
func TestIDNamesTheTransition(t *testing.T) {
	leader := example()
	witness := leader
	witness.Reporter, witness.Perspective = "pod-c_77", events.ByWitness
	witness.Time = witness.Time.Add(time.Second)
	witness.Revision++
	if leader.ID() != witness.ID() || leader.Election.Source() != witness.Election.Source() {
		t.Error("two reports of one transition differ in id or source")
	}
	next := leader
	next.Epoch++
	if leader.ID() == next.ID() {
		t.Error("two terms share an id")
	}
	other := leader
	other.Transition = events.NewLeader
	if leader.ID() == other.ID() {
		t.Error("two kinds share an id")
	}
}
