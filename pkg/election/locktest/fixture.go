package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// patience is how long anything that must happen may take.
const patience = 30 * time.Second

// Fixture is one lock, absent at first, in the store that the lock is for.
type Fixture struct {
	// Open returns the lock over a connection of its own, as one more
	// candidate would have it.
	Open func(t *testing.T) election.Lock
	// Delete removes the lock with the store's own tools, as an operator
	// would.
	Delete func(t *testing.T)
	// Overwrite changes the holder's name in the lock, which exists, with the
	// store's own tools, as foreign software would that knows no conditions.
	Overwrite func(t *testing.T, holder string)
	// Disturb breaks every watch, for instance by a restart of the store, and
	// returns when the store serves again. Nil when the store has no such
	// fault.
	Disturb func(t *testing.T)
	// Hang keeps the store from answering, without closing a connection,
	// until the returned function is called. Nil when the store has no such
	// fault.
	Hang func(t *testing.T) (resume func())
}

// Run runs the whole suite. It calls open for each test, so that each begins
// with a lock that is absent.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(suite)
	}{
		{"Absent", suite.absent},
		{"Create", suite.create},
		{"Update", suite.update},
		{"StaleBase", suite.staleBase},
		{"StaleBaseOfAnEqualRecord", suite.staleBaseOfAnEqualRecord},
		{"DeletedBase", suite.deletedBase},
		{"Records", suite.records},
		{"Identities", suite.identities},
		{"ReadIsNotStale", suite.readIsNotStale},
		{"ForeignWriter", suite.foreignWriter},
		{"RivalCreates", suite.rivalCreates},
		{"RivalUpdates", suite.rivalUpdates},
		{"WatchSeesChangesInOrder", suite.watchSeesChangesInOrder},
		{"WatchHasNoGap", suite.watchHasNoGap},
		{"WatchEndsWithItsContext", suite.watchEndsWithItsContext},
		{"WatchForASlowReader", suite.watchForASlowReader},
		{"WatchBreaks", suite.watchBreaks},
		{"EndedContext", suite.endedContext},
		{"HangingStore", suite.hangingStore},
		{"Model", suite.model},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(suite{t, open(t)}) })
	}
}

// suite is one test of the suite and its lock.
type suite struct {
	t *testing.T
	f Fixture
}

// record is one that the holder could have written now.
func record(holder string) election.Record {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return election.Record{
		Holder: holder, Duration: 15 * time.Second, Acquired: now, Renewed: now, HasTransitions: true,
	}
}

// bounded returns the context of one request that must not take for ever.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func mustRead(t *testing.T, l election.Lock) election.Observation {
	t.Helper()
	o, err := l.Read(bounded(t))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return o
}

func mustCreate(t *testing.T, l election.Lock, r election.Record) election.Observation {
	t.Helper()
	o, err := l.Create(bounded(t), r)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	wantState(t, "create", o, r)
	return o
}

func mustUpdate(t *testing.T, l election.Lock, base election.Observation, r election.Record) election.Observation {
	t.Helper()
	o, err := l.Update(bounded(t), base, r)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	wantState(t, "update", o, r)
	if o.UID != base.UID {
		t.Fatalf("an update changed the uid from %s to %s", base.UID, o.UID)
	}
	// An API server makes nothing of an update that changes nothing.
	if o.Revision < base.Revision || o.Revision == base.Revision && !r.Equal(base.Record) {
		t.Fatalf("an update took the revision from %d to %d", base.Revision, o.Revision)
	}
	return o
}

func wantState(t *testing.T, what string, o election.Observation, r election.Record) {
	t.Helper()
	if !o.Exists || o.UID == "" || o.Revision == 0 {
		t.Fatalf("%s: incomplete state: %+v", what, o)
	}
	if !o.Record.Equal(r) {
		t.Fatalf("%s:\ngot  %+v\nwant %+v", what, o.Record, r)
	}
}

// same reports whether two observations are of the same state.
func same(a, b election.Observation) bool {
	return a.Exists == b.Exists && a.UID == b.UID && a.Revision == b.Revision && a.Record.Equal(b.Record)
}
