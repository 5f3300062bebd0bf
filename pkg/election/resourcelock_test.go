package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/internal/memlock"
)

// Plain client-go electors take turns on a lock that is no Lease, through
// release and through expiry, and leave our part of the record alone.
func TestResourceLockCarriesClientGosElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.NewStore()
		acquired := time.Now().UTC()
		store.Overwrite(election.Record{Duration: time.Second, HasTransitions: true, Epoch: 7, EpochAcquired: acquired})
		var leading atomic.Int32
		run := func(identity string, release bool) (led chan struct{}, stop func()) {
			led = make(chan struct{})
			lock := store.Open(identity)
			ctx, cancel := context.WithCancel(t.Context())
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock:          election.ResourceLock(lock, identity),
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				ReleaseOnCancel: release,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) {
						if n := leading.Add(1); n > 1 {
							t.Errorf("%d leaders", n)
						}
						close(led)
						<-ctx.Done()
						leading.Add(-1)
					},
					OnStoppedLeading: func() {},
				},
			})
			if err != nil {
				t.Error(err)
			}
			done := make(chan struct{})
			go func() {
				elector.Run(ctx)
				close(done)
			}()
			return led, func() {
				cancel()
				<-done
				synctest.Wait()
			}
		}
		ledA, stopA := run("a", true)
		<-ledA
		_, stopB := run("b", false)
		time.Sleep(time.Minute)
		if o := store.State(); o.Record.Holder != "a" || o.Record.Epoch != 7 || !o.Record.EpochAcquired.Equal(acquired) {
			t.Errorf("while a leads: %+v", o.Record)
		}
		stopA()
		if h := store.State().Record.Holder; h != "" {
			t.Errorf("a released, and %q holds", h)
		}
		time.Sleep(10 * time.Second)
		if h := store.State().Record.Holder; h != "b" {
			t.Errorf("%q leads, want b", h)
		}
		stopB() // without a release
		start := time.Now()
		ledC, stopC := run("c", true)
		<-ledC
		if waited := time.Since(start); waited < 13*time.Second || waited > 20*time.Second {
			t.Errorf("c waited %s for a lease of 15s to run out", waited)
		}
		if uid := store.State().UID; uid != store.History()[0].UID {
			t.Errorf("the uid changed to %s", uid)
		}
		store.Delete() // client-go's elector would take it while c still leads
		stopC()
		ledD, stopD := run("d", true)
		<-ledD
		stopD()
	})
}
