package election_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
