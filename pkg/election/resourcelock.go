package election

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ResourceLock lets a plain client-go LeaderElector stand in an election on
// any Lock, such as one in a NATS bucket, beside candidates of this package:
//
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock: election.ResourceLock(lock, identity),
//		…
//	})
//
// It is what a resourcelock.LeaseLock is for a Lease: it remembers the state
// that it read or made last, and replaces that. What client-go's record has no
// field for, the epoch above all, stays as it was.
//
// Lock is an interface of its own, because resourcelock.Interface cannot say
// what a safe election has to know. It has no uid, so a lock that was deleted
// and made again looks like the one before. It has no revision in its results,
// so a release cannot be bound to the record that was just read, and a late
// answer cannot be told from a new one. And it has no watch.
//
// Get reports an absent lock with the NotFound error that LeaderElector looks
// for. The raw record, in which LeaderElector looks for signs of life, carries
// the revision, so that every write counts, also within one second. Events are
// not recorded. The adapter is safe for concurrent use, and for one elector.
func ResourceLock(l Lock, identity string) resourcelock.Interface {
	return &resourceLock{lock: l, identity: identity}
}

type resourceLock struct {
	lock     Lock
	identity string

	mu   sync.Mutex
	last Observation
}

// Get reads the record.
func (a *resourceLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	o, err := a.lock.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	a.remember(o)
	if !o.Exists {
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("locks"), a.lock.String())
	}
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity:       o.Record.Holder,
		LeaseDurationSeconds: int(o.Record.Duration / time.Second),
		AcquireTime:          metav1.NewTime(o.Record.Acquired),
		RenewTime:            metav1.NewTime(o.Record.Renewed),
		LeaderTransitions:    o.Record.Transitions,
		Strategy:             coordinationv1.CoordinatedLeaseStrategy(o.Record.Strategy),
		PreferredHolder:      o.Record.PreferredHolder,
	}
	raw, err := json.Marshal(struct {
		*resourcelock.LeaderElectionRecord
		UID      string `json:"uid"`
		Revision uint64 `json:"revision"`
	}{record, o.UID, o.Revision})
	if err != nil {
		return nil, nil, err
	}
	return record, raw, nil
}

// Create makes the lock.
func (a *resourceLock) Create(ctx context.Context, ler resourcelock.LeaderElectionRecord) error {
	o, err := a.lock.Create(ctx, fromClientGo(ler, Record{}))
	if err == nil {
		a.remember(o)
	}
	return err
}

// Update replaces the state that was read or made last.
func (a *resourceLock) Update(ctx context.Context, ler resourcelock.LeaderElectionRecord) error {
	a.mu.Lock()
	base := a.last
	a.mu.Unlock()
	o, err := a.lock.Update(ctx, base, fromClientGo(ler, base.Record))
	if err == nil {
		a.remember(o)
	}
	return err
}

func (a *resourceLock) remember(o Observation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = o
}

// fromClientGo puts client-go's record over ours.
func fromClientGo(ler resourcelock.LeaderElectionRecord, r Record) Record {
	r.Holder = ler.HolderIdentity
	r.Duration = time.Duration(max(ler.LeaseDurationSeconds, 0)) * time.Second
	r.Acquired = ler.AcquireTime.Time
	r.Renewed = ler.RenewTime.Time
	r.Transitions, r.HasTransitions = ler.LeaderTransitions, true
	r.Strategy, r.PreferredHolder = string(ler.Strategy), ler.PreferredHolder
	return r
}

// RecordEvent does nothing: there is no object for an event to be about.
func (a *resourceLock) RecordEvent(string) {}

// Identity returns who uses the lock.
func (a *resourceLock) Identity() string { return a.identity }

// Describe names the lock.
func (a *resourceLock) Describe() string { return a.lock.String() }
