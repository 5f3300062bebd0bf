package election

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"pgregory.net/rapid"
)

var someTime = time.Date(2026, 3, 29, 1, 59, 59, 123456000, time.UTC)

func genRecord(t *rapid.T) Record {
	when := func(label string) time.Time {
		if rapid.Bool().Draw(t, label+"?") {
			return time.Time{}
		}
		return someTime.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, label)) * time.Microsecond)
	}
	r := Record{
		Holder:          rapid.String().Draw(t, "holder"),
		Duration:        time.Duration(rapid.Int32Range(0, math.MaxInt32).Draw(t, "seconds")) * time.Second,
		Acquired:        when("acquired"),
		Renewed:         when("renewed"),
		HasTransitions:  rapid.Bool().Draw(t, "hasTransitions"),
		Epoch:           rapid.Uint64().Draw(t, "epoch"),
		Preferred:       rapid.String().Draw(t, "preferred"),
		Strategy:        rapid.SampledFrom([]string{"", "OldestEmulationVersion"}).Draw(t, "strategy"),
		PreferredHolder: rapid.String().Draw(t, "preferredHolder"),
	}
	if r.HasTransitions {
		r.Transitions = int(rapid.Int32Range(0, math.MaxInt32).Draw(t, "transitions"))
	}
	if r.Epoch > 0 {
		r.EpochAcquired = when("epochAcquired")
	}
	return r
}

func TestLeaseKeepsEveryRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecord(t)
		lease := &coordinationv1.Lease{}
		if err := encodeLease(want, lease); err != nil {
			t.Fatal(err)
		}
		if got := decodeLease(lease); !got.Equal(want) {
			t.Fatalf("stored %+v\nread   %+v", want, got)
		}
	})
}

// A plain client-go candidate must read what we write, and we what it writes.
func TestLeaseRecordIsClientGos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecord(t)
		ours := &coordinationv1.Lease{}
		if err := encodeLease(want, ours); err != nil {
			t.Fatal(err)
		}
		theirs := resourcelock.LeaseSpecToLeaderElectionRecord(&ours.Spec)
		back := &coordinationv1.Lease{Spec: resourcelock.LeaderElectionRecordToLeaseSpec(theirs)}
		got := decodeLease(back)
		// client-go knows no absent transitions, and no annotations.
		want.HasTransitions = true
		want.Epoch, want.EpochAcquired, want.Preferred = 0, time.Time{}, ""
		if !got.Equal(want) {
			t.Fatalf("wrote %+v\nafter client-go %+v", want, got)
		}
	})
}

func TestLeaseWithOddOrMissingFields(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lease string // JSON, as the API server would send it
		want  Record
	}{
		{"empty spec", `{}`, Record{}},
		{"kubelet: no acquireTime, no transitions", `{"spec":{"holderIdentity":"node-1","leaseDurationSeconds":40,"renewTime":"2026-03-29T01:59:59.123456Z"}}`,
			Record{Holder: "node-1", Duration: 40 * time.Second, Renewed: someTime}},
		{"holder without duration", `{"spec":{"holderIdentity":"a"}}`, Record{Holder: "a"}},
		{"zero duration, from a fake", `{"spec":{"holderIdentity":"a","leaseDurationSeconds":0}}`, Record{Holder: "a"}},
		{"negative numbers, from a fake", `{"spec":{"leaseDurationSeconds":-3,"leaseTransitions":-1}}`, Record{HasTransitions: true}},
		{"released", `{"spec":{"holderIdentity":"","leaseDurationSeconds":1,"leaseTransitions":3}}`,
			Record{Duration: time.Second, Transitions: 3, HasTransitions: true}},
		{"times of the year one", `{"spec":{"acquireTime":null,"renewTime":"0001-01-01T00:00:00.000000Z"}}`, Record{}},
		{"times of the year ten thousand", `{"metadata":{"annotations":{"leaderbridge.io/epoch":"7","leaderbridge.io/epoch-acquired":"9999-12-31T23:59:59-01:00"}},"spec":{"renewTime":"9999-12-31T23:59:59.000000-01:00"}}`, Record{Epoch: 7}},
		{"epoch that is no number", `{"metadata":{"annotations":{"leaderbridge.io/epoch":"seven"}}}`, Record{}},
		{"epoch below zero", `{"metadata":{"annotations":{"leaderbridge.io/epoch":"-7"}}}`, Record{}},
		{"epoch without its time", `{"metadata":{"annotations":{"leaderbridge.io/epoch":"7"}}}`, Record{Epoch: 7}},
		{"epoch with a time of nothing", `{"metadata":{"annotations":{"leaderbridge.io/epoch":"7","leaderbridge.io/epoch-acquired":"noon"}}}`, Record{Epoch: 7}},
		{"coordinated", `{"spec":{"holderIdentity":"a","strategy":"OldestEmulationVersion","preferredHolder":"b"}}`,
			Record{Holder: "a", Strategy: "OldestEmulationVersion", PreferredHolder: "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var lease coordinationv1.Lease
			if err := json.Unmarshal([]byte(tc.lease), &lease); err != nil {
				t.Fatal(err)
			}
			o := observe(&lease)
			if !o.Record.Equal(tc.want) {
				t.Fatalf("got %+v\nwant %+v", o.Record, tc.want)
			}
			if o.Revision != 0 {
				t.Fatalf("a Lease without resourceVersion has revision %d", o.Revision)
			}
			if err := encodeLease(o.Record, lease.DeepCopy()); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
		})
	}
}

func TestLeaseRefusesWhatItWouldTruncate(t *testing.T) {
	for _, d := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, -time.Second, (math.MaxInt32 + 1) * time.Second} {
		if err := encodeLease(Record{Duration: d}, &coordinationv1.Lease{}); err == nil {
			t.Errorf("a duration of %s was stored", d)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := encodeLease(Record{Transitions: math.MaxInt32 + 1, HasTransitions: true}, lease); err != nil {
		t.Fatal(err)
	}
	if got := *lease.Spec.LeaseTransitions; got != math.MaxInt32 {
		t.Errorf("a full counter became %d", got)
	}
}

func TestLeaseKeepsWhatIsNotOurs(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"app": "x"},
		Annotations: map[string]string{"theirs": "1", AnnotationEpoch: "4", AnnotationEpochAcquired: "x", AnnotationPreferredHolder: "b"},
		Finalizers:  []string{"f"},
	}}
	if err := encodeLease(Record{Holder: "a"}, lease); err != nil {
		t.Fatal(err)
	}
	if len(lease.Annotations) != 1 || lease.Annotations["theirs"] != "1" || lease.Labels["app"] != "x" || len(lease.Finalizers) != 1 {
		t.Fatalf("left %+v", lease.ObjectMeta)
	}
}
