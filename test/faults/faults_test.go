package faults

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	// A proxy that was told to swallow leaves its pipe behind (toxiproxy 2.5).
	kubeenv.Main(m, goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
}

func number(variable string, fallback int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return fallback
}

// TestFaults forces failovers by faults of all kinds and checks every promise
// over what happened.
func TestFaults(t *testing.T) {
	seed := uint64(number("LEADERBRIDGE_FAULTS_SEED", 1))
	wanted := number("LEADERBRIDGE_FAULTS_FAILOVERS", 20)
	elections := number("LEADERBRIDGE_FAULTS_ELECTIONS", 2)
	t.Logf("seed %d: replay with LEADERBRIDGE_FAULTS_SEED=%d LEADERBRIDGE_FAULTS_FAILOVERS=%d LEADERBRIDGE_FAULTS_ELECTIONS=%d", seed, seed, wanted, elections)
	unit := procenv.Build(t, "test/faults/cmd/unit")
	ground := newGround(t)
	run := &run{wanted: int64(wanted)}
	stages := make([]*stage, elections)
	for i := range stages {
		stages[i] = newStage(t, ground, run, i, seed)
		if i%2 == 0 {
			stages[i].crew = newCrew(stages[i], unit, rand.New(rand.NewPCG(seed, uint64(2000+i))))
		}
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, s := range stages {
		wg.Go(s.play)
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	// Faults of the servers themselves are drawn here: their methods belong to
	// the goroutine of the test.
	ground.shake(rand.New(rand.NewPCG(seed, 1000)), over, func() {
		t.Logf("%d of %d failovers after %s", run.forced.Load(), wanted, time.Since(began).Round(time.Second))
	})
	table := table{seed: seed, took: time.Since(began)}
	for _, s := range stages {
		table.add(s, s.check())
	}
	t.Log(table.text(ground.spells))
	if !t.Failed() && table.failovers < wanted {
		t.Errorf("only %d failovers, want %d: too quiet to prove anything", table.failovers, wanted)
	}
}

// run is how far all elections have come together.
type run struct {
	wanted int64
	forced atomic.Int64
}

// deck deals faults: each kind once, in an order drawn anew for each round, so
// that a short run has all of them and a long one the same number of each.
type deck[F any] struct {
	rng   *rand.Rand
	all   []F
	left  []F
	dealt int
}

func newDeck[F any](rng *rand.Rand, all []F) *deck[F] { return &deck[F]{rng: rng, all: all} }

func (d *deck[F]) deal() F {
	if len(d.left) == 0 {
		for _, i := range d.rng.Perm(len(d.all)) {
			d.left = append(d.left, d.all[i])
		}
	}
	f := d.left[0]
	d.left = d.left[1:]
	d.dealt++
	return f
}

// round tells whether each kind has been dealt.
func (d *deck[F]) round() bool { return d.dealt >= len(d.all) }

// spell is a fault from its beginning to its end.
type spell struct {
	kind     string
	from, to time.Time
	any      []events.Reason // see fault.any
}
