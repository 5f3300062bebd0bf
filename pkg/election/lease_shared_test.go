package election_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

// Many locks make one watch, which tells each of its own Lease alone, ends with
// the last of them, and begins again with the next.
func TestLocksShareAWatch(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	var watches, open atomic.Int64
	config := api.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.RawQuery, "watch=true") {
				watches.Add(1)
				open.Add(1)
				context.AfterFunc(r.Context(), func() { open.Add(-1) })
			}
			return next.RoundTrip(r)
		})
	})
	client := leaseClient(t, config)
	shared := election.NewLeaseWatch(client, namespace)
	for round := range int64(2) {
		ctx, cancel := context.WithCancel(t.Context())
		var locks []election.Lock
		var seen []<-chan election.Observation
		for i := range 20 {
			l, err := election.NewLeaseLock(client, namespace, fmt.Sprintf("round-%d-lock-%d", round, i/2), election.WithLeaseWatch(shared))
			if err != nil {
				t.Fatal(err)
			}
			w, err := l.Watch(ctx)
			if err != nil {
				t.Fatal(err)
			}
			locks, seen = append(locks, l), append(seen, w)
		}
		for i := 0; i < len(locks); i += 2 { // two candidates share each Lease
			made, err := locks[i].Create(t.Context(), heldByA())
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range seen[i : i+2] {
				if o := <-w; o.UID != made.UID || o.Revision != made.Revision {
					t.Errorf("lock %d was told of %+v, want %+v", i, o, made)
				}
			}
		}
		if n := watches.Load(); n != round+1 {
			t.Errorf("%d watches in round %d", n, round)
		}
		cancel()
		for _, w := range seen {
			waitClosed(t, w)
		}
		testenv.Eventually(t, leasePatience, func() error {
			if open.Load() != 0 {
				return errors.New("the watch goes on although nobody listens")
			}
			return nil
		})
	}
}

// A watch of one namespace is of no use to a lock of another.
func TestASharedWatchOfAnotherNamespace(t *testing.T) {
	api := kubeenv.Shared(t)
	client := leaseClient(t, api.Config())
	shared := election.NewLeaseWatch(client, api.Namespace(t))
	l, err := election.NewLeaseLock(client, api.Namespace(t), "lock", election.WithLeaseWatch(shared))
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made, err := l.Create(t.Context(), heldByA())
	if err != nil {
		t.Fatal(err)
	}
	if o := <-w; o.UID != made.UID {
		t.Errorf("told of %+v, want %+v", o, made)
	}
}

// A reader that is too slow to be told of everything is not left in the belief
// that it was: its watch ends.
func TestASlowReadersWatchEnds(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	client := leaseClient(t, api.Config())
	for name, opts := range map[string][]election.LeaseOption{
		"own":    nil,
		"shared": {election.WithLeaseWatch(election.NewLeaseWatch(client, namespace))},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := election.NewLeaseLock(client, namespace, "slow-"+name, opts...)
			if err != nil {
				t.Fatal(err)
			}
			slow, err := l.Watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			quick, err := l.Watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := heldByA()
			o, err := l.Create(t.Context(), r)
			const changes = 100
			for i := 1; i < changes && err == nil; i++ {
				if got := <-quick; got.Revision != o.Revision {
					t.Fatalf("told of revision %d, want %d", got.Revision, o.Revision)
				}
				r.Renewed = r.Renewed.Add(time.Second)
				o, err = l.Update(t.Context(), o, r)
			}
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for range slow {
				n++
			}
			if n >= changes {
				t.Errorf("%d states waited for a reader that was away", n)
			}
		})
	}
}
