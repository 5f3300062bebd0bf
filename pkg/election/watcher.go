package election

import (
	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// Watcher turns what is seen of a lock that others hold into the states worth
// telling, as an Elector does for a lock that it stands for. It makes no
// request and has no goroutine: the caller feeds it, and asks it again at
// Wake. It is not safe for concurrent use.
//
// A renewal costs a comparison and no memory.
type Watcher struct{ core core.Watcher }

// NewWatcher returns a watcher that has seen nothing yet.
func NewWatcher() *Watcher { return &Watcher{core: core.NewWatcher()} }

// Seen takes in a state that was watched: absent for a deletion, with the
// deletion's revision if it is known.
func (w *Watcher) Seen(obs Observation) []State {
	m := moment()
	return states(w.core.Seen(m, obs, false, m.Now))
}

// Listed takes in a state that was part of a list requested at the moment
// sent: what happened before it may have been missed.
func (w *Watcher) Listed(obs Observation, sent boottime.Instant) []State {
	w.core.Missed()
	return states(w.core.Seen(moment(), obs, true, core.Instant(sent)))
}

// Tick tells what the passing of time has changed: that a holder has lapsed,
// because its record has not changed for the duration that it stores, or that
// a deleted lock's holder has had its time.
func (w *Watcher) Tick() []State { return states(w.core.Tick(moment())) }

// Wake returns when Tick may have something to tell; false when only news can.
func (w *Watcher) Wake() (boottime.Instant, bool) {
	at := w.core.Wake()
	return boottime.Instant(at), at != core.Never
}

func states(views []core.View) []State {
	if len(views) == 0 {
		return nil
	}
	all := make([]State, len(views))
	for i, v := range views {
		all[i] = stateOf(v)
	}
	return all
}
