package deploy

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/tcpproxy"
)

// A site is cut off from the hub, and its leader changes three times meanwhile:
// by request, by a clean stop and by a crash. When the link is back the hub has
// every event, in order, once, with its own time, as readers there see it too.
// That holds although the link fails again in the middle of catching up.
func TestSiteIsCutOff(t *testing.T) {
	newUser(t, "bridge")
	hubReader := newUser(t, "reader")
	newUser(t, "operator")
	admin, link := newUser(t, "admin"), newUser(t, "site-a")
	hub := serve(t, "hub.conf")
	proxy := tcpproxy.Start(t, strings.TrimPrefix(os.Getenv("LEADERBRIDGE_HUB_URL"), "nats-leaf://"))
	t.Setenv("LEADERBRIDGE_HUB_URL", "nats-leaf://"+proxy.Addr())

	t.Setenv("LEADERBRIDGE_SITE", "site-a")
	t.Setenv("LEADERBRIDGE_SITE_SEED", link.seed)
	bridge := newUser(t, "bridge")
	newUser(t, "worker")
	reader, operator := newUser(t, "reader"), newUser(t, "operator")
	site := serve(t, "leaf.conf", func(o *server.Options) {
		// The hub tells its own address, and the way there would go past the
		// proxy.
		o.LeafNode.Remotes[0].IgnoreDiscoveredServers = true
	})

	candidates := map[string]*procenv.Process{}
	for _, id := range []string{"a", "b", "c"} {
		candidates[id] = procenv.Start(t, id, nil, "run", "--lock", "nats", "--cluster", "site-a", "--lease-lock-name", "scheduler",
			"--id", id, "--nats-url", site.URL(), "--nats-nkey", bridge.file(t), "--nats-inbox-prefix", bridge.inbox(),
			"--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms", "--http-addr", "")
	}
	e := events.Election{Cluster: "site-a", Namespace: "default", Lease: "scheduler"}
	atSite := reader.enter(t, site)
	first := awaitTerm(t, atSite, e, 1)
	hubAdmin := admin.enter(t, hub)
	makeStream(t, hubAdmin, "hub-stream.json")
	awaitTerm(t, hubAdmin, e, 1)

	proxy.Freeze() // so that new connections carry nothing either
	proxy.Cut()
	if code, out := leaderbridge(t, operator, site, "step-down", "--timeout", "20s", "site-a/default/scheduler"); code != 0 {
		t.Errorf("step-down at a site that is cut off: exit code %d: %s", code, out)
	}
	second := awaitTerm(t, atSite, e, 2)
	if second == first {
		t.Errorf("%s leads again after it stepped down", first)
	}
	candidates[second].Signal(syscall.SIGTERM)
	third := awaitTerm(t, atSite, e, 3)
	candidates[third].Signal(syscall.SIGKILL)
	awaitTerm(t, atSite, e, 4)
	if n := len(read(t, hubAdmin, e)); n != 2 {
		t.Fatalf("%d events at the hub, want the 2 from before the link was cut", n)
	}

	proxy.Thaw()
	testenv.Eventually(t, patience, func() error {
		if n := len(read(t, hubAdmin, e)); n == 2 {
			return errors.New("nothing has arrived yet")
		}
		return nil
	})
	proxy.Cut()
	want := read(t, atSite, e)
	testenv.Eventually(t, patience, func() error {
		if n := len(read(t, hubAdmin, e)); n < len(want) {
			return fmt.Errorf("%d of %d events are at the hub", n, len(want))
		}
		return nil
	})

	if len(want) != 11 {
		t.Errorf("%d events at the site, want 11: four starts of two events and three stops", len(want))
	}
	if got := read(t, hubAdmin, e); !reflect.DeepEqual(got, want) {
		t.Errorf("at the hub:\n%+v\nwant what the site has:\n%+v", got, want)
	}
	ids := func(server *natsenv.Server, u user, args ...string) []string {
		code, out := leaderbridge(t, u, server, "events", append([]string{"--last", "0", "--follow=false", "-o", "json"}, args...)...)
		if code != 0 {
			t.Errorf("leaderbridge events: exit code %d: %s", code, out)
		}
		var found []string
		for line := range strings.Lines(out) {
			event, err := events.Decode(nil, []byte(strings.TrimSpace(line)))
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			found = append(found, event.ID())
		}
		return found
	}
	there := ids(site, reader)
	for what, here := range map[string][]string{
		"a reader at the hub":                         ids(hub, hubReader),
		"an administrator at the hub, by its domain":  ids(hub, admin, "--js-domain", "hub"),
		"an administrator at the hub, of one cluster": ids(hub, admin, "site-a/*/*"),
	} {
		if !reflect.DeepEqual(here, there) {
			t.Errorf("%s sees %v, a reader at the site %v", what, here, there)
		}
	}
}

// patience is longer than anything here takes on a busy machine.
const patience = 60 * time.Second

// awaitTerm waits until the log says that a term has begun, and who leads.
func awaitTerm(t *testing.T, nc *nats.Conn, e events.Election, epoch uint64) (leader string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		log, err := events.Open(t.Context(), nc, events.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		tail, err := log.Tail(t.Context(), e)
		if err != nil {
			return err
		}
		if tail.Last.Epoch != epoch || tail.Last.Transition != events.NewLeader {
			return fmt.Errorf("the last event is %s of term %d, want a leader of term %d", tail.Last.Transition, tail.Last.Epoch, epoch)
		}
		leader = tail.Last.Leader
		return nil
	})
	return leader
}

// leaderbridge runs a command as a user of a server until it ends.
func leaderbridge(t *testing.T, u user, s *natsenv.Server, command string, args ...string) (code int, out string) {
	t.Helper()
	all := []string{command, "--nats-url", s.URL(), "--nats-nkey", u.file(t)}
	if u.role != "admin" {
		all = append(all, "--nats-inbox-prefix", u.inbox())
	}
	p := procenv.Start(t, command, nil, append(all, args...)...)
	code = p.Wait(patience)
	if code != 0 {
		return code, p.Stdout() + p.Stderr()
	}
	return code, p.Stdout()
}
