package events

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// storm is one random run of several recorders against a log that fails, over
// one random history of a lock.
type storm struct {
	*rand.Rand
	t       *testing.T
	memory  *memory
	lock    *lock
	names   []string
	wg      sync.WaitGroup
	crashes bool
}

// history makes a history with ten seconds between its states.
func (s *storm) history(n int, ends bool) {
	s.lock = newLock(true)
	for len(s.lock.history) < n {
		op := s.IntN(len(operations))
		if operations[op].name == "end" && !ends {
			continue
		}
		s.lock.do(op)
	}
}

// faults makes requests fail in every way, more or less often from one half
// minute to the next.
func (s *storm) faults() func(string) fault {
	var mu sync.Mutex
	seed := s.Uint64()
	return func(string) fault {
		mu.Lock()
		defer mu.Unlock()
		span := uint64(time.Since(bubble()) / (30 * time.Second))
		odds := rand.New(rand.NewPCG(seed, span)).Float64()
		f := fault{wait: time.Duration(s.IntN(1500)) * time.Millisecond}
		if s.Float64() > odds {
			return f
		}
		switch s.IntN(4) {
		case 0:
			f.err = errAway
		case 1:
			f.mute = true
		case 2:
			f.half = true
		case 3:
			f.err, f.wait = ErrOutcomeUnknown, 10*time.Second
		}
		return f
	}
}

// see lets a replica observe the history, each state some time after it was
// so. If the storm has crashes, the replica now and then dies and comes back to
// whatever is then.
func (s *storm) see(name string, states []Observed) {
	r := rand.New(rand.NewPCG(s.Uint64(), 1))
	lag := time.Duration(r.IntN(3000)) * time.Millisecond
	crashes := s.crashes
	s.wg.Go(func() {
		recorder, stop := s.start(name)
		defer func() { stop() }()
		for i, o := range states {
			time.Sleep(time.Until(bubble().Add(o.At.Sub(someEpoch) + lag)))
			if crashes && r.IntN(8) == 0 {
				stop()
				recorder, stop = s.start(name)
				// It finds what is, and leads no more.
				if o.Own || o.Status == Lapsed || o.Status == Ended {
					if o.Status != Ended {
						o.Status = Held
					}
					o.Own = false
				}
				if o.Status == Ended {
					continue
				}
			}
			if i > 0 && crashes && r.IntN(4) == 0 && i < len(states)-1 && !o.Own && o.Status != Ended {
				states[i+1].Gap = true
				continue
			}
			recorder.Observe(someElection, o)
		}
		time.Sleep(time.Until(bubble().Add(time.Hour)))
	})
}

func (s *storm) start(name string) (*Recorder, func()) {
	r, err := NewRecorder(s.memory, RecorderOptions{Reporter: Reporter{Identity: name, Perspective: ByWitness}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.memory.mu.Lock()
	s.memory.readers = append(s.memory.readers, r)
	s.memory.mu.Unlock()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

// run lets the storm blow, and returns the log when it is over.
func (s *storm) run() []Event {
	s.memory = newMemory()
	s.memory.lag = func() time.Duration { return rand.N(2 * time.Second) }
	s.memory.setFaults(s.faults())
	for _, name := range s.names {
		s.see(name, s.lock.view(name))
	}
	time.Sleep(time.Until(bubble().Add(30 * time.Minute)))
	s.memory.setFaults(nil)
	s.wg.Wait()
	return s.memory.log(someElection)
}

func storms(t *testing.T, do func(t *testing.T, s *storm)) {
	t.Helper()
	n := 150
	if testing.Short() {
		n = 30
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &storm{Rand: rand.New(rand.NewPCG(uint64(seed), 0)), t: t}
				s.names = []string{"w", "a", "b", "v", "u"}[:1+s.IntN(5)]
				do(t, s)
			})
		})
	}
}

// However many replicas there are, whoever is slow, whatever the log's answers:
// as long as no process dies, every state that was seen is in the log, and the
// log is the one that a single replica would have written without any fault.
func TestRecorderStormDoesNotChangeTheLog(t *testing.T) {
	storms(t, func(t *testing.T, s *storm) {
		t.Helper()
		s.history(25, false)
		log := s.run()
		var calm []Event
		var gap bool
		for _, o := range s.lock.view("w") {
			var events []Event
			events, gap = reconcile(someElection, tailOf(calm), o, witness, gap)
			calm = append(calm, events...)
		}
		if got, want := substance(log), substance(calm); got != want {
			t.Fatalf("seen by %v\n%s\nwant\n%s", s.names, got, want)
		}
	})
}

// With processes that die, miss states and end their own terms, too, the log is
// legal, says nothing that was not, announces its holes and ends in the truth.
func TestRecorderStormWithCrashes(t *testing.T) {
	var became, missed int
	storms(t, func(t *testing.T, s *storm) {
		t.Helper()
		s.crashes = true
		s.history(25, true)
		log := s.run()
		if problem := s.lock.illegal(log); problem != "" {
			t.Fatalf("%s\n%s", problem, substance(log))
		}
		if problem := s.lock.unannounced(log); problem != "" {
			t.Fatalf("%s\n%s", problem, substance(log))
		}
		if n := len(log); n > 0 && s.lock.alive && s.lock.present.Status == Held && log[n-1].Leader != s.lock.present.Holder {
			t.Fatalf("%s leads, the log ends\n%s", s.lock.present.Holder, substance(log[n-1:]))
		}
		became += strings.Count(told(log), "became")
		missed += strings.Count(told(log), "missed")
	})
	if became < 100 || missed == 0 {
		t.Errorf("%d terms with %d holes prove little", became, missed)
	}
}
