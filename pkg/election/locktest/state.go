package locktest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

func wantConflict(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, election.ErrConflict) {
		t.Fatalf("%s: %v, want a conflict", what, err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: the error has several lines: %q", what, err)
	}
}

func (s suite) absent() {
	t, f := s.t, s.f
	l := f.Open(t)
	if l.String() == "" {
		t.Error("the lock has no name")
	}
	if o := mustRead(t, l); o.Exists {
		t.Fatalf("an absent lock reads as %+v", o)
	}
	_, err := l.Update(bounded(t), mustRead(t, l), record("a"))
	wantConflict(t, "update of an absent lock", err)
	if o := mustRead(t, l); o.Exists {
		t.Fatalf("an update created the lock: %+v", o)
	}
}

func (s suite) create() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	made := mustCreate(t, a, record("a"))
	if o := mustRead(t, b); !same(o, made) {
		t.Fatalf("created %+v\nread    %+v", made, o)
	}
	_, err := b.Create(bounded(t), record("b"))
	wantConflict(t, "create of a lock that exists", err)
	_, err = a.Create(bounded(t), record("a"))
	wantConflict(t, "second create by the first", err)
	if o := mustRead(t, a); !same(o, made) {
		t.Fatalf("a refused create left %+v, want %+v", o, made)
	}
}

func (s suite) update() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	made := mustCreate(t, a, record("a"))
	once := mustUpdate(t, a, made, record("a"))   // from what create returned
	mustUpdate(t, a, once, record("a"))           // from what update returned
	mustUpdate(t, b, mustRead(t, b), record("b")) // from what another read
	read := mustRead(t, a)
	last := mustUpdate(t, a, read, read.Record) // the same record again
	if read := mustRead(t, b); !same(read, last) {
		t.Fatalf("updated %+v\nread    %+v", last, read)
	}
}

func (s suite) staleBase() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	stale := mustCreate(t, a, record("a"))
	now := mustUpdate(t, b, mustRead(t, b), record("b"))
	_, err := a.Update(bounded(t), stale, record("a"))
	wantConflict(t, "update of a stale base", err)
	if o := mustRead(t, a); !same(o, now) {
		t.Fatalf("a refused update left %+v, want %+v", o, now)
	}
}

// A record may come back as it was before. The state does not: whoever read
// the first one has missed a term.
func (s suite) staleBaseOfAnEqualRecord() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	first := mustCreate(t, a, record("a"))
	second := mustUpdate(t, b, first, record("b"))
	third := mustUpdate(t, b, second, first.Record)
	_, err := a.Update(bounded(t), first, record("a"))
	wantConflict(t, "update of a base whose record is back", err)
	mustUpdate(t, a, third, record("a"))
}

func (s suite) deletedBase() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	first := mustCreate(t, a, record("a"))
	f.Delete(t)
	if o := mustRead(t, a); o.Exists {
		t.Fatalf("a deleted lock reads as %+v", o)
	}
	_, err := a.Update(bounded(t), first, record("a"))
	wantConflict(t, "update of a deleted lock", err)
	if o := mustRead(t, a); o.Exists {
		t.Fatalf("an update brought a deleted lock back: %+v", o)
	}

	second := mustCreate(t, b, first.Record)
	if second.UID == first.UID {
		t.Fatalf("the recreated lock has the uid of the deleted one, %s", first.UID)
	}
	if second.Revision <= first.Revision {
		t.Fatalf("the revision went from %d to %d by delete and create", first.Revision, second.Revision)
	}
	_, err = a.Update(bounded(t), first, record("a"))
	wantConflict(t, "update of a base from before delete and create", err)
	if o := mustRead(t, a); !same(o, second) {
		t.Fatalf("a refused update left %+v, want %+v", o, second)
	}
}

func (s suite) records() {
	t, f := s.t, s.f
	l := f.Open(t)
	when := time.Date(2026, 3, 29, 1, 59, 59, 123456000, time.UTC)
	records := []election.Record{
		{Holder: "a", Duration: 15 * time.Second, Acquired: when, Renewed: when.Add(time.Microsecond), HasTransitions: true},
		{Holder: "a", Duration: time.Hour, Acquired: when, Renewed: when, Transitions: 41, HasTransitions: true,
			Epoch: 42, EpochAcquired: when, Preferred: "b"},
		{Duration: time.Second, Acquired: when, Renewed: when, Transitions: 41, HasTransitions: true, Epoch: 42, EpochAcquired: when}, // released
		{Holder: "a", Duration: time.Second, Epoch: 1<<63 + 1},                                                                        // no times, no transitions
		{Holder: "a"},
		{},
	}
	o := mustCreate(t, l, records[len(records)-1])
	for _, r := range records {
		o = mustUpdate(t, l, o, r)
		if read := mustRead(t, l); !same(read, o) {
			t.Fatalf("wrote %+v\nread  %+v", o, read)
		}
	}
	for what, spoil := range map[string]func(*election.Record){
		"half a second":          func(r *election.Record) { r.Duration = 500 * time.Millisecond },
		"one and a half seconds": func(r *election.Record) { r.Duration = 1500 * time.Millisecond },
		"a negative second":      func(r *election.Record) { r.Duration = -time.Second },
		"a holder not in UTF-8":  func(r *election.Record) { r.Holder = "a\xff" },
	} {
		r := record("a")
		spoil(&r)
		if _, err := l.Update(bounded(t), o, r); !errors.Is(err, election.ErrRefused) {
			t.Errorf("%s: %v, want it refused", what, err)
		}
	}
	if read := mustRead(t, l); !same(read, o) {
		t.Fatalf("refused records left %+v, want %+v", read, o)
	}
}

func (s suite) identities() {
	t, f := s.t, s.f
	l := f.Open(t)
	o := mustCreate(t, l, record("plain"))
	for _, id := range []string{
		"ip-10-0-0-1.eu.internal_3f9a", "node 1", "a*b", "x>y", "a.b..c.", "ünï", "日本", "two\nlines", "tab\there",
		`"quoted\"`, "</script>&", "%41", " ends ", strings.Repeat("x", 200), strings.Repeat("ü", 500), "\u2028", "app-1", "app-10",
	} {
		r := record(id)
		r.Preferred = id
		o = mustUpdate(t, l, o, r)
		if read := mustRead(t, l); read.Record.Holder != id {
			t.Errorf("holder %q reads as %q", id, read.Record.Holder)
		}
	}
}

func (s suite) readIsNotStale() {
	t, f := s.t, s.f
	a, b := f.Open(t), f.Open(t)
	o := mustCreate(t, a, record("a"))
	for range 100 {
		o = mustUpdate(t, a, o, record("a"))
		if read := mustRead(t, b); !same(read, o) {
			t.Fatalf("wrote revision %d, then read %d", o.Revision, read.Revision)
		}
	}
}

func (s suite) foreignWriter() {
	t, f := s.t, s.f
	l := f.Open(t)
	w := watchLock(t, l)
	mine := mustCreate(t, l, record("mine"))
	f.Overwrite(t, "theirs")
	seen := w.until(func(o election.Observation) bool { return o.Exists && o.Record.Holder == "theirs" })
	if read := mustRead(t, l); !same(read, seen) || read.Revision <= mine.Revision {
		t.Fatalf("watched %+v\nread    %+v", seen, read)
	}
	_, err := l.Update(bounded(t), mine, record("mine"))
	wantConflict(t, "update of a base from before a foreign write", err)
	mustUpdate(t, l, seen, record("mine"))
}

const (
	rivals = 8
	rounds = 15
)

// compete has each rival write at the same moment, and wants one winner. An
// error that leaves the outcome open would be a fault here: nothing is broken.
func compete(t *testing.T, locks []election.Lock, write func(i int, l election.Lock) (election.Observation, error)) election.Observation {
	t.Helper()
	var (
		start   = make(chan struct{})
		wait    sync.WaitGroup
		results = make([]election.Observation, len(locks))
		errs    = make([]error, len(locks))
	)
	for i, l := range locks {
		wait.Go(func() {
			<-start
			results[i], errs[i] = write(i, l)
		})
	}
	close(start)
	wait.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err != nil:
			wantConflict(t, "write of a rival", err)
		case winner >= 0:
			t.Fatalf("two rivals won: %+v and %+v", results[winner], results[i])
		default:
			winner = i
		}
	}
	if winner < 0 {
		t.Fatal("no rival won")
	}
	if read := mustRead(t, locks[0]); !same(read, results[winner]) {
		t.Fatalf("the winner wrote %+v\nread %+v", results[winner], read)
	}
	return results[winner]
}

func openRivals(t *testing.T, f Fixture) []election.Lock {
	t.Helper()
	locks := make([]election.Lock, rivals)
	for i := range locks {
		locks[i] = f.Open(t)
		mustRead(t, locks[i]) // be connected before the race
	}
	return locks
}

func rival(i int) string { return fmt.Sprintf("rival-%d", i) }

func (s suite) rivalCreates() {
	t, f := s.t, s.f
	locks := openRivals(t, f)
	for range rounds {
		compete(t, locks, func(i int, l election.Lock) (election.Observation, error) {
			return l.Create(bounded(t), record(rival(i)))
		})
		f.Delete(t)
	}
}

func (s suite) rivalUpdates() {
	t, f := s.t, s.f
	locks := openRivals(t, f)
	base := mustCreate(t, locks[0], record("first"))
	for range rounds {
		base = compete(t, locks, func(i int, l election.Lock) (election.Observation, error) {
			return l.Update(bounded(t), base, record(rival(i)))
		})
	}
}
