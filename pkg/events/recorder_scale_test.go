package events

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func manyElections(n int) []Election {
	elections := make([]Election, n)
	for i := range elections {
		elections[i] = Election{Cluster: "default", Namespace: "kube-node-lease", Lease: fmt.Sprintf("ip-10-0-%d-%d.eu.internal", i/256, i%256)}
	}
	return elections
}

func node(e Election, revision uint64) Observed {
	return Observed{
		Status: Held, UID: "7b0c4f0e-4a5e-4a43-9c55-0d9f7f2f3a11", Holder: e.Lease, Revision: revision,
		At: someEpoch, RenewTime: at(int(revision)), LeaseDurationSeconds: new(40),
	}
}

// A renewal costs no memory and no work for anybody else.
func TestRecorderRenewalsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.recorder(t, "w")
		e := manyElections(1)[0]
		o := node(e, 1)
		w.Observe(e, o)
		time.Sleep(time.Minute)
		synctest.Wait()
		appends := m.appends
		allocs := testing.AllocsPerRun(1000, func() {
			o.Revision++
			o.RenewTime = o.RenewTime.Add(10 * time.Second)
			w.Observe(e, o)
		})
		synctest.Wait()
		if s := w.Stats(); allocs != 0 || m.appends != appends || s.Queued != 0 {
			t.Errorf("%.0f allocations a renewal, %d appends, stats %+v", allocs, m.appends-appends, s)
		}
	})
}

// Ten thousand elections that stand still need a kilobyte or two each, and no
// goroutine.
func TestRecorderManyElections(t *testing.T) {
	const n = 10_000
	elections := manyElections(n)
	m := newMemory()
	r, err := NewRecorder(m, RecorderOptions{Reporter: Reporter{Identity: "w", Perspective: ByWatcher}, Delay: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	before, memory := runtime.NumGoroutine(), inUse()
	go func() { done <- r.Run(ctx) }()
	for _, e := range elections {
		r.Observe(e, node(e, 1))
	}
	peak := 0
	for deadline := time.Now().Add(time.Minute); r.Stats().Queued > 0; {
		peak = max(peak, runtime.NumGoroutine()-before)
		if time.Now().After(deadline) {
			t.Fatalf("not done: %+v", r.Stats())
		}
		time.Sleep(time.Millisecond)
	}
	if s := r.Stats(); s.Appended != 2*n || s.Elections != n || s.Behind+s.Failed+s.Dropped != 0 {
		t.Errorf("stats %+v", s)
	}
	if peak > 10 {
		t.Errorf("%d goroutines", peak)
	}
	m.mu.Lock()
	m.logs = nil // the test's own copy
	m.mu.Unlock()
	each := (inUse() - memory) / n
	t.Logf("%d bytes an election, the test's log included; %d goroutines at most", each, peak)
	if each > 4096 {
		t.Errorf("%d bytes an election", each)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(r)
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func BenchmarkRecorderRenewal(b *testing.B) {
	m := newMemory()
	r, err := NewRecorder(m, RecorderOptions{Reporter: witness, Delay: -1})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	elections := manyElections(10_000)
	states := make([]Observed, len(elections))
	for i, e := range elections {
		states[i] = node(e, 1)
		r.Observe(e, states[i])
	}
	for r.Stats().Queued > 0 {
		time.Sleep(time.Millisecond)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n := i % len(elections)
		states[n].Revision++
		r.Observe(elections[n], states[n])
	}
}

func BenchmarkReconcile(b *testing.B) {
	tail := written(b, held("a", 1, 1))
	o := held("b", 5, 6)
	b.ReportAllocs()
	for b.Loop() {
		Reconcile(someElection, tail, o, witness)
	}
}
