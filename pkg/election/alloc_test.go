package election

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watcher sees thousands of renewals a second, and a worker checks its term
// before each step. None of that may cost memory.
func TestHotPathsDoNotAllocate(t *testing.T) {
	renewed := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "l", UID: "u", ResourceVersion: "12345"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("a"), LeaseDurationSeconds: new(int32(40)), RenewTime: &renewed},
	}
	w := NewWatcher()
	if told := w.Seen(ObserveLease(lease)); len(told) != 1 {
		t.Fatalf("told %v of the first state", told)
	}
	term := &Term{}
	term.deadline.Store(1 << 62)
	for name, path := range map[string]func(){
		"a renewal seen by a watcher": func() {
			renewed.Time = renewed.Add(10 * time.Second)
			if told := w.Seen(ObserveLease(lease)); told != nil {
				t.Fatalf("told %v of a renewal", told)
			}
		},
		"the next moment of a watcher": func() { w.Wake() },
		"the check of a term": func() {
			if err := term.Check(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if n := testing.AllocsPerRun(1000, path); n != 0 {
			t.Errorf("%s: %.0f allocations, want none", name, n)
		}
	}
}
