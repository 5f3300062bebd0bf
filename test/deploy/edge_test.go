package deploy

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// hub.conf and leaf.conf are enough for a site whose bridge stands on a NATS
// key, and whose log is drawn to the hub: each event once, also when the hub
// has a stream for the same subjects and both are in the same account.
func TestSiteAndHub(t *testing.T) {
	newUser(t, "bridge")
	newUser(t, "reader")
	newUser(t, "operator")
	admin, link := newUser(t, "admin"), newUser(t, "site-a")
	hub := serve(t, "hub.conf")
	hubAdmin := admin.enter(t, hub)

	t.Setenv("LEADERBRIDGE_SITE", "site-a")
	t.Setenv("LEADERBRIDGE_SITE_SEED", link.seed)
	bridge := newUser(t, "bridge")
	newUser(t, "worker")
	reader, operator := newUser(t, "reader"), newUser(t, "operator")
	site := serve(t, "leaf.conf")

	p := procenv.Start(t, "candidate", nil, "run", "--lock", "nats", "--cluster", "site-a", "--lease-lock-name", "scheduler",
		"--id", "candidate", "--nats-url", site.URL(), "--nats-nkey", bridge.file(t), "--nats-inbox-prefix", bridge.inbox(),
		"--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms", "--http-addr", "")
	e := events.Election{Cluster: "site-a", Namespace: "default", Lease: "scheduler"}
	atSite := reader.enter(t, site)
	testenv.Eventually(t, 20*time.Second, func() error {
		log, err := events.Open(t.Context(), atSite, events.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		tail, err := log.Tail(t.Context(), e)
		if err == nil && tail.Last.Transition != events.NewLeader {
			err = errors.New("nobody leads at the site")
		}
		return err
	})
	stream := makeStream(t, hubAdmin, "hub-stream.json")
	if _, err := events.Open(t.Context(), hubAdmin, events.Options{}); err != nil {
		t.Errorf("the hub's stream does not fit the log: %v", err)
	}
	arrived := func(want uint64) {
		t.Helper()
		testenv.Eventually(t, 40*time.Second, func() error {
			info, err := stream.Info(t.Context())
			if err != nil {
				return err
			}
			if info.State.Msgs != want {
				return fmt.Errorf("%d events at the hub, want %d", info.State.Msgs, want)
			}
			return nil
		})
	}
	arrived(2) // became-leader and new-leader

	// What the hub may ask of a site is one thing.
	for _, subject := range []string{
		"$JS.site-a.API.INFO", "$JS.site-a.API.STREAM.NAMES", "$JS.site-a.API.STREAM.PURGE.LEADERBRIDGE", "$JS.site-a.API.STREAM.DELETE.LEADERBRIDGE",
		"$JS.site-a.API.CONSUMER.NAMES.LEADERBRIDGE_NOT", "$JS.site-a.API.STREAM.MSG.GET.KV_leaderbridge_locks",
		e.RequestSubject(events.DefaultPrefix, events.StepDownVerb),
	} {
		if m, err := hubAdmin.Request(subject, nil, 500*time.Millisecond); err == nil {
			t.Errorf("the hub's administrator got an answer on %s: %s", subject, m.Data)
		}
	}
	// Nor does a site write at the hub.
	forged := e
	forged.Cluster = "default"
	forger := operator.enter(t, site)
	if err := forger.Publish(forged.Subject(events.DefaultPrefix, events.NewLeader), []byte("forged")); err != nil {
		t.Fatal(err)
	}
	_ = forger.FlushTimeout(time.Second)

	p.Signal(syscall.SIGTERM)
	if code := p.Wait(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	arrived(3)
	checkSame(t, atSite, hubAdmin, e)
}

// checkSame holds the hub's copy of an election's log against the site's.
func checkSame(t *testing.T, site, hub *nats.Conn, e events.Election) {
	t.Helper()
	atSite, atHub := read(t, site, e), read(t, hub, e)
	if len(atSite) == 0 || len(atSite) != len(atHub) {
		t.Fatalf("%d events at the site, %d at the hub", len(atSite), len(atHub))
	}
	for i := range atSite {
		if atSite[i].ID() != atHub[i].ID() {
			t.Errorf("event %d is %s at the site and %s at the hub", i, atSite[i].ID(), atHub[i].ID())
		}
	}
}
