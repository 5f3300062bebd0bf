package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// role is what the workers of an election compete for.
const role = "sync"

// crew is the workers of one election, real processes whose command records
// each unit of work.
type crew struct {
	s     *stage
	rng   *rand.Rand
	unit  string // the command
	file  string // where it records
	hands []*hand

	spells           []spell
	units, handovers int
}

// hand is one place for a worker.
type hand struct {
	name     string
	nats     *link
	lives    int
	id       string
	stubborn bool // its command does not heed SIGTERM
	process  *procenv.Process
}

func newCrew(s *stage, unit string, rng *rand.Rand) *crew {
	s.t.Helper()
	c := &crew{s: s, rng: rng, unit: unit, file: filepath.Join(s.t.TempDir(), "work")}
	for i := range 2 {
		c.hands = append(c.hands, &hand{name: fmt.Sprintf("%s-w%d", s.name, i), nats: s.natsLink(i + 1), stubborn: i == 0})
	}
	for _, h := range c.hands {
		c.start(h)
	}
	return c
}

func (c *crew) start(h *hand) {
	h.lives++
	h.id = fmt.Sprintf("%s.%d", h.name, h.lives)
	args := []string{"worker", "--election", c.s.namespace + "/scheduler", "--role", role, "--nats-url", "nats://" + h.nats.addr(), "--id", h.id}
	if h.stubborn {
		args = append(args, "--grace", "300ms", "--", c.unit, c.file, "stubborn")
	} else {
		// With its whole grace it is asked to stop before its worker is.
		args = append(args, "--", c.unit, c.file)
	}
	// The race detector has a program wait for a second before it exits. A
	// command that obeys must be gone at once, as others are.
	h.process = procenv.Start(c.s.t, h.id, []string{"GORACE=atexit_sleep_ms=0"}, args...)
}

// begin does to workers what happens to workers, until end is called and each
// kind of fault has been.
func (c *crew) begin() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		deck := newDeck(c.rng, workerFaults)
		for ctx.Err() == nil || !deck.round() && !c.s.t.Failed() {
			pause(ctx, 500*time.Millisecond+upTo(c.rng, 1500*time.Millisecond))
			c.supervise()
			f, h := deck.deal(), c.pick()
			now := spell{kind: f.name, from: time.Now()}
			f.do(c, h)
			now.to = time.Now()
			c.spells = append(c.spells, now)
		}
	}()
	return func() {
		cancel()
		<-done
		c.supervise()
	}
}

// supervise starts workers again that have ended, as an orchestrator does: a
// worker ends when it finds that it could not stop its work in time. It must
// not end as if the work were done, which it never is.
func (c *crew) supervise() {
	for _, h := range c.hands {
		select {
		case <-h.process.Done():
			if h.process.Wait(time.Minute) == 0 {
				c.s.t.Errorf("%s ended with code 0, though nobody told it to end", h.id)
			}
			c.start(h)
		default:
		}
	}
}

// pick chooses whom a fault befalls: mostly the one at work.
func (c *crew) pick() *hand {
	if c.rng.IntN(4) > 0 {
		working := c.last().worker
		for _, h := range c.hands {
			if h.id == working {
				return h
			}
		}
	}
	return c.hands[c.rng.IntN(len(c.hands))]
}

// last returns the last unit of work that is recorded.
func (c *crew) last() unit {
	f, err := os.Open(c.file)
	if err != nil {
		return unit{} // nobody has worked yet
	}
	defer func() { _ = f.Close() }()
	const tail = 1 << 10
	size, err := f.Seek(0, 2)
	if err != nil {
		return unit{}
	}
	b := make([]byte, min(size, tail))
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
		return unit{}
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	u, err := parseUnit(lines[len(lines)-1])
	if err != nil {
		return unit{}
	}
	return u
}

type workerFault struct {
	name string
	do   func(*crew, *hand)
}

var workerFaults = []workerFault{
	{"worker paused", func(c *crew, h *hand) {
		h.process.Signal(syscall.SIGSTOP)
		time.Sleep(fewSeconds(c.rng))
		h.process.Signal(syscall.SIGCONT)
	}},
	{"worker killed", func(c *crew, h *hand) {
		h.process.Signal(syscall.SIGKILL)
		<-h.process.Done()
		c.start(h)
	}},
	{"worker stopped", func(c *crew, h *hand) {
		h.process.Signal(syscall.SIGTERM)
		h.process.Wait(time.Minute)
		c.start(h)
	}},
	{"worker cut off from NATS", func(c *crew, h *hand) {
		heal := h.nats.cut(c.s.t)
		time.Sleep(fewSeconds(c.rng))
		heal()
	}},
	{"NATS swallows what is for a worker", func(c *crew, h *hand) {
		heal := h.nats.hang(c.s.t)
		time.Sleep(fewSeconds(c.rng))
		heal()
	}},
}

// resumes waits until there is new work, in the last epoch of the log: the
// faults are over.
func (c *crew) resumes() {
	c.s.t.Helper()
	now := boottime.Now()
	testenv.Eventually(c.s.t, patience, func() error {
		log := c.s.entries()
		if u := c.last(); u.at < now || u.epoch != log[len(log)-1].Epoch {
			return fmt.Errorf("%s: nobody works in epoch %d, last %+v, %s ago", c.s.name, log[len(log)-1].Epoch, u, boottime.Now().Sub(u.at))
		}
		return nil
	})
}

// check holds the record of the work against the terms.
func (c *crew) check(terms []term, log []entry) []string {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return []string{err.Error()}
	}
	work, err := parseWork(string(text))
	if err != nil {
		return []string{err.Error()}
	}
	c.units, c.handovers = len(work), runs(work)
	// Both clocks run on, and are read here within microseconds.
	wall, boot := time.Now(), boottime.Now()
	at := func(i boottime.Instant) time.Time { return wall.Add(i.Sub(boot)) }
	found := append(checkWork(work), checkTerms(work, terms, log, at)...)
	if c.handovers < 3 {
		found = append(found, fmt.Sprintf("only %d runs of the command: too quiet to prove anything", c.handovers))
	}
	return found
}
