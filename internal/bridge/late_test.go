package bridge_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/tcpproxy"
)

// echo says everything again that is said between a leader and its workers,
// requests, answers and notices: later, in another order, and some of it twice.
type echo struct {
	nc    *nats.Conn
	rng   *rand.Rand // of the subscription's goroutine
	mu    sync.Mutex
	wait  sync.WaitGroup
	over  bool
	count int
}

// echoed marks what is said again, so that it is not said for ever.
const echoed = "Test-Echo"

func startEcho(t *testing.T, s *natsenv.Server, seed uint64) *echo {
	t.Helper()
	e := &echo{nc: s.Connect(t), rng: rand.New(rand.NewPCG(seed, 0))}
	for _, subject := range []string{events.DefaultPrefix + ".api.>", "_INBOX.>"} {
		if _, err := e.nc.Subscribe(subject, e.hear); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		e.mu.Lock()
		e.over = true
		e.mu.Unlock()
		e.wait.Wait()
	})
	return e
}

func (e *echo) hear(m *nats.Msg) {
	// What JetStream says keeps its order: it is numbered, and the client
	// would begin anew each time.
	if m.Header.Get(echoed) != "" || strings.HasPrefix(m.Reply, "$JS.") {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for range 1 + e.rng.IntN(2) {
		if e.over {
			return
		}
		again := nats.NewMsg(m.Subject)
		again.Data, again.Reply = m.Data, m.Reply
		maps.Copy(again.Header, m.Header)
		again.Header.Set(echoed, "1")
		e.count++
		e.wait.Add(1)
		time.AfterFunc(time.Duration(e.rng.IntN(2500))*time.Millisecond, func() {
			defer e.wait.Done()
			_ = e.nc.PublishMsg(again)
		})
	}
}

// Messages come late, twice and out of order, and the connections of workers
// stall for longer than a grant's renewal takes: whoever works does so alone,
// in epochs that do not fall, and within its grant.
func TestLateAndReorderedMessages(t *testing.T) {
	s := newSite(t)
	r := &rota{t: t}
	e := startEcho(t, s.server, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	address, err := url.Parse(s.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.stand("a"), s.stand("b")
	var proxies []*tcpproxy.Proxy
	for i := range 4 {
		p := tcpproxy.Start(t, address.Host)
		nc, err := nats.Connect("nats://"+p.Addr(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		proxies = append(proxies, p)
		s.work(nc, fmt.Sprintf("w%d", i), "sync", r.handle)
	}
	now := s.await(r, "sync", 0)
	for range 6 {
		p := proxies[rng.IntN(len(proxies))]
		p.Freeze()
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // time itself is the subject: how late messages are
		p.Thaw()
		// And the leader changes meanwhile, so that what is late is of another.
		leader := a
		if b.Elector().Term() != nil {
			leader = b
		}
		_ = leader.Elector().StepDown(t.Context(), "")
		now = s.await(r, "sync", now.epoch)
	}
	e.mu.Lock()
	heard := e.count
	e.mu.Unlock()
	if all := r.all(); len(all) < 6 || heard < 100 {
		t.Errorf("%d shifts and %d echoes prove little", len(all), heard)
	}
	testenv.Always(t, 3*time.Second, func() error { // what is still late
		if w := r.working("sync"); w != nil && w.epoch < now.epoch {
			return fmt.Errorf("%s works in epoch %d after %d", w.worker, w.epoch, now.epoch)
		}
		return nil
	})
}
