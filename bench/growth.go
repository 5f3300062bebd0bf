package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/observed"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// growth measures what an election costs that is watched, and one that is
// listed, among ten and among ten thousand. Nothing that is done for one
// election may depend on how many there are. The ratio is the greater number's
// cost to the smaller one's.
func growth(s *site) []row {
	sizes := []int{10, 100, 1000, 10_000}
	if s.short {
		sizes = sizes[:3]
	}
	s.openLog()
	var renewals, memory, lists []float64
	for _, n := range sizes {
		w := s.watched(n)
		memory = append(memory, w.kilobytes())
		renewals = append(renewals, w.renewal(s.pick(100_000, 400_000)))
		runtime.KeepAlive(w)
		lists = append(lists, s.list(n))
		s.progress("%d elections: %.0f ns a renewal, %.2f KB and %.1f µs to list, each", n, renewals[len(renewals)-1], memory[len(memory)-1], lists[len(lists)-1])
	}
	// compare holds the greater numbers against the one at base.
	compare := func(what, unit string, costs []float64, base int) (rows []row) {
		for i := base + 1; i < len(sizes); i++ {
			rows = append(rows, row{
				Name: fmt.Sprintf("%s, each of %d; floor: of %d", what, sizes[i], sizes[base]), Unit: unit,
				Samples: sizes[i], Ours: costs[i], Floor: costs[base],
			}.against("not rising: ≤ 1.5", func(r row) bool { return r.Ratio <= 1.5 }))
		}
		return rows
	}
	// Ten are too few to tell memory, or a list, from what is there anyway.
	return slices.Concat(
		compare("a watched election's renewal", "ns", renewals, 0),
		compare("a watched election's memory", "KB", memory, 1),
		compare("an election in a list of leaders", "µs", lists, 1),
	)
}

// watchedFleet is what a watcher keeps of elections: for each an
// election.Watcher, and its account with the recorder.
type watchedFleet struct {
	*recording
	elections []events.Election
	watchers  []*election.Watcher
	seen      []election.Observation
	before    int64
}

// watched makes n elections, each with a holder, and waits until the log has
// them.
func (s *site) watched(n int) *watchedFleet {
	w := &watchedFleet{before: inUse(), recording: s.recorder()}
	w.left, w.all = n, make(chan struct{})
	at := time.Now().UTC().Truncate(time.Microsecond)
	for i := range n {
		w.elections = append(w.elections, s.election(fmt.Sprintf("growth-%d", n), "lease-"+strconv.Itoa(i)))
		w.watchers = append(w.watchers, election.NewWatcher())
		w.seen = append(w.seen, election.Observation{
			Exists: true, UID: fmt.Sprintf("7b0c4f0e-4a5e-4a43-9c55-%012x", i), Revision: uint64(i) + 1,
			Record: election.Record{Holder: "node-" + strconv.Itoa(i), Duration: 40 * time.Second, Renewed: at},
		})
		w.see(i)
	}
	select {
	case <-w.all:
	case <-time.After(ready):
		s.Fatalf("the elections are not in the log: %+v", w.Stats())
	}
	return w
}

// see takes in an election's state, as a watcher does.
func (w *watchedFleet) see(i int) {
	for _, state := range w.watchers[i].Seen(w.seen[i]) {
		w.Observe(w.elections[i], observed.Of(state))
	}
}

// kilobytes is the memory of each election.
func (w *watchedFleet) kilobytes() float64 {
	return float64(inUse()-w.before) / 1000 / float64(len(w.elections))
}

// renewal is the time of one renewal among so many, in nanoseconds: the best of
// three, since others use the machine too.
func (w *watchedFleet) renewal(times int) float64 {
	best := 0.0
	for range 3 {
		began := time.Now()
		for k := range times {
			i := k % len(w.seen)
			w.seen[i].Revision++
			w.seen[i].Record.Renewed = w.seen[i].Record.Renewed.Add(10 * time.Second)
			w.see(i)
		}
		if each := float64(time.Since(began).Nanoseconds()) / float64(times); best == 0 || each < best {
			best = each
		}
	}
	return best
}

// list is the time that it takes to read who leads what, for each election, in
// microseconds: the best of three.
func (s *site) list(n int) float64 {
	log, err := events.Open(s.ctx, s.connect(), events.Options{ReadOnly: true})
	s.must(err)
	best := 0.0
	for range 3 {
		ctx, cancel := context.WithTimeout(s.ctx, ready)
		seen := map[events.Election]bool{}
		began := time.Now()
		err := log.Follow(ctx, events.FollowOptions{
			Filter: events.Election{Cluster: "bench", Namespace: fmt.Sprintf("growth-%d", n)},
			OnState: func(state events.FeedState) {
				if state.Current {
					cancel()
				}
			},
		}, func(e events.Entry) error {
			seen[e.Event.Election] = true
			return e.Err
		})
		took := time.Since(began)
		cancel()
		if len(seen) != n {
			s.Fatalf("listed %d of %d elections: %v", len(seen), n, err)
		}
		if each := float64(took.Microseconds()) / float64(n); best == 0 || each < best {
			best = each
		}
	}
	return best
}
