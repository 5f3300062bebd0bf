package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// site is one namespace of the API server and one NATS server, with a reader of
// its log.
type site struct {
	t          *testing.T
	namespace  string
	kubeconfig string
	nats       *natsenv.Server
	nc         *nats.Conn

	mu   sync.Mutex
	seen []events.Event
	at   []time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	api := kubeenv.Shared(t)
	s := &site{t: t, namespace: api.Namespace(t), nats: natsenv.Start(t)}
	s.kubeconfig = kubeenv.Kubeconfig(t, api.Config(), s.namespace)
	s.nc = s.nats.Connect(t)
	s.follow()
	return s
}

// replica starts a candidate with a lease of 3 s.
func (s *site) replica(id string, args ...string) *procenv.Process {
	s.t.Helper()
	args = append([]string{
		"run", "--lease-lock-name", "scheduler", "--kubeconfig", s.kubeconfig, "--nats-url", s.nats.URL(), "--id", id,
		"--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms", "--http-addr", "",
	}, args...)
	return procenv.Start(s.t, id, nil, args...)
}

// follow reads the log as it grows. A plain subscription would do for most; it
// also sees what a replica tried to append and the log refused.
func (s *site) follow() {
	js, err := jetstream.New(s.nc)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := events.Open(ctx, s.nc, events.Options{}); err != nil {
		s.t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(ctx, events.DefaultStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	reading, err := consumer.Consume(func(m jetstream.Msg) {
		now := time.Now()
		e, err := events.Decode(m.Headers(), m.Data())
		if err != nil {
			s.t.Errorf("the log holds what is no event: %v", err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen, s.at = append(s.seen, e), append(s.at, now)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(reading.Stop)
}

func (s *site) events() []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// await waits until the subscriber has received an event, and returns it with
// the time of its arrival.
func (s *site) await(what string, is func(events.Event) bool) (events.Event, time.Time) {
	s.t.Helper()
	var found events.Event
	var at time.Time
	testenv.Eventually(s.t, 30*time.Second, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, e := range s.seen {
			if is(e) {
				found, at = e, s.at[i]
				return nil
			}
		}
		return fmt.Errorf("no %s among %d events", what, len(s.seen))
	})
	return found, at
}

func became(epoch uint64) func(events.Event) bool {
	return func(e events.Event) bool { return e.Transition == events.NewLeader && e.Epoch == epoch }
}

// checkLegal holds the log's order: stopped(n) before became(n+1) before
// new-leader(n+1), each once.
func checkLegal(t *testing.T, all []events.Event) {
	t.Helper()
	ids := map[string]bool{}
	epoch, open := uint64(0), false
	for i, e := range all {
		if ids[e.ID()] {
			t.Errorf("event %d: id %s twice", i, e.ID())
		}
		ids[e.ID()] = true
		legal := false
		switch e.Transition {
		case events.BecameLeader:
			legal = !open && e.Epoch == epoch+1
			epoch, open = e.Epoch, true
		case events.NewLeader:
			legal = open && e.Epoch == epoch && all[i-1].Transition == events.BecameLeader
		case events.StoppedLeading:
			legal = open && e.Epoch == epoch
			open = false
		}
		if !legal {
			t.Errorf("event %d is out of order: %s epoch %d", i, e.Transition, e.Epoch)
		}
	}
}

// The main job: three replicas, a clean hand-over, a crash, and a standby that
// stops. Everybody who reads the log reads the same.
func TestThreeReplicas(t *testing.T) {
	s := newSite(t)
	replicas := map[string]*procenv.Process{}
	for _, id := range []string{"a_1", "b.2", "c 3"} {
		replicas[id] = s.replica(id)
	}
	first, _ := s.await("first leader", became(1))

	begun := time.Now()
	replicas[first.Leader].Signal(syscall.SIGTERM)
	second, at := s.await("second leader", became(2))
	t.Logf("clean hand-over: %s from SIGTERM to new-leader at a plain subscriber", at.Sub(begun))
	if took := at.Sub(begun); took > 2*time.Second {
		t.Errorf("the standby led after %s: that is a poll or a lapse, not a watch", took)
	}
	if code := replicas[first.Leader].Wait(10 * time.Second); code != 0 {
		t.Errorf("the stopped leader exited with %d", code)
	}
	stop, _ := s.await("first stop", func(e events.Event) bool { return e.Transition == events.StoppedLeading && e.Epoch == 1 })
	if stop.Reason != events.Released || stop.Perspective != events.ByLeader {
		t.Errorf("the first stop is %s by %s", stop.Reason, stop.Perspective)
	}

	replicas[second.Leader].Signal(syscall.SIGKILL)
	third, _ := s.await("third leader", became(3))
	stop, _ = s.await("second stop", func(e events.Event) bool { return e.Transition == events.StoppedLeading && e.Epoch == 2 })
	if stop.Reason != events.Expired || stop.Reporter != third.Leader || stop.Perspective != events.ByWitness {
		t.Errorf("the crash was reported as %s by %s (%s)", stop.Reason, stop.Reporter, stop.Perspective)
	}

	standby := s.replica("standby")
	testenv.Eventually(t, 30*time.Second, func() error {
		if !strings.Contains(standby.Stderr(), third.Leader) {
			return errors.New("the standby has not seen the leader yet")
		}
		return nil
	})
	before := len(s.events())
	standby.Signal(syscall.SIGTERM)
	if code := standby.Wait(10 * time.Second); code != 0 {
		t.Errorf("the standby exited with %d", code)
	}
	if after := len(s.events()); after != before {
		t.Errorf("the standby's stop published %d events", after-before)
	}

	all := s.events()
	checkLegal(t, all)
	if len(all) != 8 {
		t.Errorf("%d events, want 8: three starts of two events and two stops", len(all))
	}
	s.checkReaders(all)
}

// checkReaders holds the stream and the bucket against the plain subscriber.
func (s *site) checkReaders(all []events.Event) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	js, err := jetstream.New(s.nc)
	if err != nil {
		s.t.Fatal(err)
	}
	stream, err := js.Stream(ctx, events.DefaultStream)
	if err != nil {
		s.t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; int(n) != len(all) {
		s.t.Errorf("the stream holds %d messages, the subscriber received %d", n, len(all))
	}
	last := all[len(all)-1]
	kv, err := js.KeyValue(ctx, events.DefaultBucket)
	if err != nil {
		s.t.Fatal(err)
	}
	entry, err := kv.Get(ctx, "default."+s.namespace+".scheduler")
	if err != nil {
		s.t.Fatal(err)
	}
	var ce struct {
		ID   string `json:"id"`
		Data struct {
			Leader string `json:"leader"`
			Epoch  uint64 `json:"epoch"`
		} `json:"data"`
	}
	if err := json.Unmarshal(entry.Value(), &ce); err != nil {
		s.t.Fatal(err)
	}
	if ce.ID != last.ID() || ce.Data.Leader != last.Leader || ce.Data.Epoch != last.Epoch {
		s.t.Errorf("the bucket says %+v, the last event is %s of %s", ce, last.ID(), last.Leader)
	}
}

func TestBadInputIsOneLineAndExitCodeTwo(t *testing.T) {
	base := []string{"run", "--lease-lock-name", "x", "--lease-lock-namespace", "y"}
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown flag":         {append(base, "--bogus"), "--bogus"},
		"no lease":             {[]string{"run"}, "--lease-lock-name"},
		"no namespace":         {[]string{"run", "--lease-lock-name", "x"}, "--lease-lock-namespace"},
		"half a second":        {append(base, "--lease-duration", "500ms"), "500ms"},
		"a second and a half":  {append(base, "--lease-duration", "1500ms"), "1.5s"},
		"lease below deadline": {append(base, "--lease-duration", "8s"), "lease duration 8s > renew deadline 10s > 1.2 x retry period 2s"},
		"negative":             {append(base, "--retry-period", "-1s"), "-1s"},
		"not a duration":       {append(base, "--lease-duration", "fast"), "fast"},
		"illegal lease":        {[]string{"run", "--lease-lock-name", "A_b", "--lease-lock-namespace", "y"}, "A_b"},
		"illegal namespace":    {[]string{"run", "--lease-lock-name", "x", "--lease-lock-namespace", "a.b"}, "a.b"},
		"illegal cluster":      {append(base, "--cluster", "über"), "über"},
		"no kubeconfig":        {append(base, "--kubeconfig", "/nonexistent"), "/nonexistent"},
		"illegal NATS URL":     {append(base, "--nats-url", "http://x"), "http"},
		"illegal prefix":       {append(base, "--prefix", "a.*"), "a.*"},
		"unknown content mode": {append(base, "--content-mode", "xml"), "xml"},
		"surplus argument":     {append(base, "surplus"), "surplus"},
		"unknown subcommand":   {[]string{"runn"}, "runn"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := procenv.Start(t, name, []string{"HOME=" + t.TempDir()}, tt.args...)
			if code := p.Wait(20 * time.Second); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			out := p.Stderr()
			if strings.Count(out, "\n") != 1 || !strings.Contains(out, tt.want) {
				t.Errorf("want one line with %q, got %q", tt.want, out)
			}
		})
	}
}

// Neither the API server nor NATS being away is bad input.
func TestNothingIsThereYet(t *testing.T) {
	s := newSite(t)
	s.nats.Stop()
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p := s.replica("early", "--http-addr", addr)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		var b strings.Builder
		_, _ = fmt.Fprint(&b, resp.Status)
		return resp.StatusCode, b.String()
	}
	testenv.Eventually(t, 20*time.Second, func() error {
		if code, body := get("/healthz"); code != http.StatusOK {
			return fmt.Errorf("healthz: %d %s", code, body)
		}
		return nil
	})
	if code, _ := get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d without NATS", code)
	}
	// It leads all the same: leadership does not depend on NATS.
	testenv.Eventually(t, 20*time.Second, func() error {
		if !strings.Contains(p.Stderr(), "msg=leading") {
			return errors.New("not leading")
		}
		return nil
	})
	s.nats.Restart(t)
	testenv.Eventually(t, 30*time.Second, func() error {
		if code, body := get("/readyz"); code != http.StatusOK {
			return fmt.Errorf("readyz: %d %s", code, body)
		}
		return nil
	})
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// waitFor waits until a replica has seen who leads.
func waitFor(t *testing.T, p *procenv.Process, leader string) {
	t.Helper()
	testenv.Eventually(t, 30*time.Second, func() error {
		if !strings.Contains(p.Stderr(), "holder="+leader) {
			return fmt.Errorf("%s has not seen that %s leads", p.Name(), leader)
		}
		return nil
	})
}
