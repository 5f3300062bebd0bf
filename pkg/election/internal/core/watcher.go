package core

import "time"

// Watcher follows a lock that others hold. It decides nothing but what is
// worth telling. It is not safe for concurrent use.
type Watcher struct{ track Track }

// NewWatcher returns a watcher that has seen nothing yet.
func NewWatcher() Watcher { return Watcher{track: NewTrack()} }

// Seen takes in a state. read is true when it was read, rather than watched,
// by a request sent at the moment sent.
func (w *Watcher) Seen(m Moment, obs Observation, read bool, sent Instant) []View {
	if n := w.track.learn(m.Now, obs, read, sent, false, 0); n == oldNews || n == overtaken {
		return nil
	}
	return w.track.tell(m, false)
}

// Missed notes that states may have come and gone unseen.
func (w *Watcher) Missed() { w.track.Missed() }

// Tick tells what the passing of time has changed: a holder who has not
// renewed for the duration in its record has lapsed, as far as can be seen. A
// record without a duration never lapses.
func (w *Watcher) Tick(m Moment) []View {
	if m.Now >= w.track.expiry(0) {
		w.track.lapsed = true
	}
	return w.track.tell(m, false)
}

// Wake is when Tick may have something to tell: Never when only news can.
func (w *Watcher) Wake() Instant {
	if !w.track.known {
		return Never
	}
	if !w.track.obs.Exists {
		if w.track.told.status == Held || w.track.told.status == Lapsed {
			return w.track.heldUntil
		}
		return Never
	}
	if w.track.lapsed {
		return Never
	}
	return w.track.expiry(time.Duration(0))
}
