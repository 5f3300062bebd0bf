package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// foreign writes Leases as other software does.
type foreign struct {
	t      *testing.T
	leases coordinationclient.LeaseInterface
}

func (f *foreign) do(name string, change func(*coordinationv1.Lease)) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	obj, err := f.leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		obj = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(obj)
		_, err = f.leases.Create(ctx, obj, metav1.CreateOptions{})
	} else {
		change(obj)
		_, err = f.leases.Update(ctx, obj, metav1.UpdateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// hold takes or renews a Lease as a kubelet does: holder, duration and renew
// time, and nothing else.
func (f *foreign) hold(name, holder string, seconds int32) {
	f.t.Helper()
	f.do(name, func(l *coordinationv1.Lease) {
		now := metav1.NowMicro()
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &holder, &seconds, &now
	})
}

func of(lease string, transition events.Transition, leader string) func(events.Event) bool {
	return func(e events.Event) bool {
		return e.Election.Lease == lease && e.Transition == transition && e.Who() == leader
	}
}

// A watcher that is stopped first writes what it had left to others.
func TestWatchWritesBeforeItEnds(t *testing.T) {
	s := newSite(t)
	client, err := kubernetes.NewForConfig(kubeenv.Shared(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	f := &foreign{t: t, leases: client.CoordinationV1().Leases(s.namespace)}
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	w := procenv.Start(t, "w", nil, "watch", "--namespace", s.namespace, "--id", "w",
		"--kubeconfig", s.kubeconfig, "--nats-url", s.nats.URL(), "--http-addr", addr, "--report-delay", "10m")
	f.hold("node", "n", 3600)
	testenv.Eventually(t, 30*time.Second, func() error {
		var status struct{ Queued int }
		response, err := http.Get("http://" + addr + "/status")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
			return err
		}
		if status.Queued == 0 {
			return errors.New("it has not seen the Lease yet")
		}
		return nil
	})
	w.Signal(syscall.SIGTERM)
	if code := w.Wait(20 * time.Second); code != 0 {
		t.Errorf("it exited with %d", code)
	}
	s.await("what it had seen", of("node", events.NewLeader, "n"))
}

// Two watchers beside each other report what others do with their Leases,
// once: a take-over, a lapse that nobody follows, a come-back, a deletion, and
// holders with odd names. Field cases 39 to 51.
func TestWatch(t *testing.T) {
	s := newSite(t)
	client, err := kubernetes.NewForConfig(kubeenv.Shared(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	f := &foreign{t: t, leases: client.CoordinationV1().Leases(s.namespace)}
	odd := "ünï a*b.c>d\n" + strings.Repeat("x", 200)
	f.hold("before", "early", 3600)
	f.do("empty", func(*coordinationv1.Lease) {})

	var watchers []*procenv.Process
	for _, id := range []string{"w1", "w2"} {
		watchers = append(watchers, procenv.Start(t, id, nil, "watch", "--namespace", s.namespace, "--id", id, "--exclude", "*/ignored",
			"--kubeconfig", s.kubeconfig, "--nats-url", s.nats.URL(), "--http-addr", "", "--report-delay", "200ms"))
	}
	s.await("the state from before", of("before", events.NewLeader, "early"))

	f.hold("node", odd, 3600)
	e, _ := s.await("an odd holder", of("node", events.NewLeader, odd))
	if e.Perspective != events.ByWatcher || !e.AcquireTime.IsZero() || e.LeaseTransitions != nil {
		t.Errorf("the event invents what the Lease does not have: %+v", e)
	}
	f.hold("node", "next", 3600)
	s.await("the take-over", of("node", events.NewLeader, "next"))

	f.hold("mortal", "m", 1)
	s.await("m", of("mortal", events.NewLeader, "m"))
	e, _ = s.await("m's lapse", of("mortal", events.StoppedLeading, "m"))
	if e.Reason != events.Expired || e.Leader != "" {
		t.Errorf("a lapse is reported as %q with the leader %q", e.Reason, e.Leader)
	}
	f.hold("mortal", "m", 3600)
	e, _ = s.await("m's return", func(e events.Event) bool { return of("mortal", events.BecameLeader, "m")(e) && e.Epoch == 2 })
	if e.Reason != events.Resumed {
		t.Errorf("a return is reported as %q", e.Reason)
	}

	f.hold("gone", "g", 1)
	s.await("g", of("gone", events.NewLeader, "g"))
	if err := f.leases.Delete(context.Background(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the end of a deleted Lease", of("gone", events.StoppedLeading, "g"))

	f.hold("ignored", "nobody", 1)
	for i := range 100 {
		f.hold("node", "next", int32(3600+i%2)) // renewals
	}
	f.hold("last", "l", 3600)
	s.await("the last one", of("last", events.NewLeader, "l"))
	// Both watchers have had their say when what one of them delayed is over.
	testenv.Always(t, time.Second, func() error {
		for _, e := range s.events() {
			if e.Election.Lease == "ignored" || e.Election.Lease == "empty" {
				return fmt.Errorf("an event of %s", e.Election.Lease)
			}
		}
		return nil
	})
	byLease := map[string][]events.Event{}
	for _, e := range s.events() {
		byLease[e.Election.Lease] = append(byLease[e.Election.Lease], e)
	}
	for lease, want := range map[string]int{"before": 2, "node": 5, "mortal": 5, "gone": 3, "last": 2} {
		checkLegal(t, byLease[lease])
		if n := len(byLease[lease]); n != want {
			t.Errorf("%s: %d events, want %d", lease, n, want)
		}
	}
	for _, w := range watchers {
		w.Signal(syscall.SIGTERM)
		if code := w.Wait(10 * time.Second); code != 0 {
			t.Errorf("%s exited with %d", w.Name(), code)
		}
	}
}
