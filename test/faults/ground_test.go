package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// patience is how long anything may take that is certain to happen: machines
// are slow, and a server that comes back has a lot to do.
const patience = 3 * time.Minute

// ground is what all elections stand on.
type ground struct {
	t    *testing.T
	api  *kubeenv.APIServer
	etcd *link // between the API server and etcd
	nats [natsenv.Size]*natsenv.Process

	spells []spell // of the test's goroutine

	mu   sync.Mutex
	eras []time.Time // when the log's stream was made, and made anew
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{t: t}
	g.api = kubeenv.Start(t, kubeenv.EtcdThrough(func(etcd string) string {
		g.etcd = newLink(t, "etcd", etcd)
		return g.etcd.addr()
	}))
	// A client must stay on the link that it was given.
	g.nats = natsenv.StartProcesses(t, "", "no_advertise: true")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := events.Open(ctx, g.connect(), events.Options{}); err != nil {
		t.Fatal(err)
	}
	go g.watchEras(t.Context(), g.connect())
	return g
}

// connect returns a connection to whichever of the NATS servers is there.
func (g *ground) connect() *nats.Conn {
	g.t.Helper()
	return g.nats[0].Connect(g.t, func(o *nats.Options) error {
		o.Servers = nil
		for _, p := range g.nats {
			o.Servers = append(o.Servers, p.URL())
		}
		o.Timeout = 5 * time.Second
		return nil
	})
}

// watchEras notes each time that the log's stream is made.
func (g *ground) watchEras(ctx context.Context, nc *nats.Conn) {
	js, err := jetstream.New(nc)
	if err != nil {
		g.t.Error(err)
		return
	}
	for ctx.Err() == nil {
		look, cancel := context.WithTimeout(ctx, 5*time.Second)
		if s, err := js.Stream(look, events.DefaultStream); err == nil {
			g.note(s.CachedInfo().Created)
		}
		cancel()
		pause(ctx, 100*time.Millisecond)
	}
}

func (g *ground) note(created time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.eras {
		if e.Equal(created) {
			return
		}
	}
	g.eras = append(g.eras, created)
}

// era returns how often the stream had been made by then.
func (g *ground) era(stored time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, e := range g.eras {
		if !stored.Before(e) {
			n++
		}
	}
	return n
}

// shake harms a server and heals it again, and then another, until all
// elections are over and each kind of fault has been.
func (g *ground) shake(rng *rand.Rand, over <-chan struct{}, report func()) {
	g.t.Helper()
	faults := newDeck(rng, groundFaults)
	reported := time.Now()
	for {
		select {
		case <-over:
			if faults.round() || g.t.Failed() {
				return
			}
		case <-time.After(time.Duration(1000+rng.IntN(4000)) * time.Millisecond):
		}
		f := faults.deal()
		s := spell{kind: f.name, from: time.Now()}
		f.do(g, rng)
		s.to = time.Now()
		g.spells = append(g.spells, s)
		if time.Since(reported) > 30*time.Second {
			reported = time.Now()
			report()
		}
	}
}

// groundFault is something done to a server that all depend on.
type groundFault struct {
	name string
	do   func(g *ground, rng *rand.Rand)
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

var groundFaults = []groundFault{
	{"API server restarted", func(g *ground, rng *rand.Rand) {
		g.api.Kill(g.t)
		time.Sleep(upTo(rng, 1500*time.Millisecond))
		g.api.Restart(g.t)
	}},
	{"API server hangs", func(g *ground, rng *rand.Rand) {
		g.api.Pause(g.t)
		time.Sleep(upTo(rng, 3*time.Second))
		g.api.Resume(g.t)
	}},
	{"etcd slow", func(g *ground, rng *rand.Rand) {
		heal := g.etcd.slow(g.t, 50*time.Millisecond+upTo(rng, time.Second))
		time.Sleep(time.Second + upTo(rng, 3*time.Second))
		heal()
	}},
	{"NATS server killed", func(g *ground, rng *rand.Rand) {
		p := g.nats[rng.IntN(len(g.nats))]
		p.Kill(g.t)
		time.Sleep(upTo(rng, 2*time.Second))
		g.revive(p)
	}},
	{"NATS server hangs", func(g *ground, rng *rand.Rand) {
		p := g.nats[rng.IntN(len(g.nats))]
		p.Pause(g.t)
		time.Sleep(upTo(rng, 4*time.Second))
		p.Resume(g.t)
	}},
	{"log stream deleted", func(g *ground, _ *rand.Rand) { g.deleteLog() }},
}

// revive starts a NATS server and waits until it has caught up: with a second
// one away the log would have no quorum. One that does not is started again, as
// its supervisor would do: it is not the servers that are tested here.
func (g *ground) revive(p *natsenv.Process) {
	g.t.Helper()
	for range 5 {
		p.Launch(g.t)
		var err error
		for began := time.Now(); time.Since(began) < time.Minute; {
			if err = p.Ready(); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		g.t.Logf("started %s again: %v", p.Name(), err)
	}
	g.t.Fatalf("the NATS server %s does not come back: nothing can be said about leaderbridge", p.Name())
}

// deleteLog deletes the stream and waits until somebody has made it anew.
func (g *ground) deleteLog() {
	g.t.Helper()
	nc := g.connect()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		g.t.Fatal(err)
	}
	began := time.Now()
	testenv.Eventually(g.t, patience, func() error {
		ctx, cancel := context.WithTimeout(g.t.Context(), 3*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, events.DefaultStream)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return errors.New("nobody has made the log anew")
		case err != nil:
			return err
		case s.CachedInfo().Created.After(began):
			g.note(s.CachedInfo().Created)
			return nil
		}
		if err := js.DeleteStream(ctx, events.DefaultStream); err != nil && !strings.Contains(err.Error(), "not found") {
			return fmt.Errorf("delete the log: %w", err)
		}
		return errors.New("nobody has made the log anew")
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
