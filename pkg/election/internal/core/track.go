package core

import "time"

// Track follows one lock: what it says, since when by the local clock, and
// which of it is news. It is the half of a candidate that a mere watcher needs
// as well. It is not safe for concurrent use.
type Track struct {
	known bool
	obs   Observation
	// since is when obs.Record was first seen as it is: the moment from which
	// its holder's time is counted (S1).
	since Instant

	// newest is the greatest revision seen and newestAt when knowledge last
	// changed: they tell old news from a store that was set back.
	newest   uint64
	newestAt Instant

	// heldUntil: a holder whose lock vanished under it may be at work until
	// then. Nobody may lead before (S1).
	heldUntil Instant
	// dirtyUntil: the same for a holder whose record was overwritten by
	// somebody who may not have waited for its end.
	dirtyUntil Instant

	leap leap

	// unseen: a refused write proved that the lock has been in a state that
	// was not seen yet.
	unseen bool

	lapsed  bool // the holder's time is over, and a read has confirmed it
	gap     bool // states may have been missed since the last view
	rewound bool // the store was set back since the last view

	told told
}

// told is what identifies the last view: another view is news only if it
// differs in one of these.
type told struct {
	status        Status
	uid           string
	holder        string
	acquired      stamp
	own           bool
	epoch         uint64
	epochAcquired stamp
}

// stamp is a recorded time in a form that == can compare.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.UnixMicro())
}

// NewTrack returns a track that knows nothing yet.
func NewTrack() Track { return Track{gap: true} }

// Known reports whether the lock's state has been seen at all.
func (t *Track) Known() bool { return t.known }

// Observation returns the newest state.
func (t *Track) Observation() Observation { return t.obs }

// Missed notes that states may have come and gone unseen.
func (t *Track) Missed() { t.gap, t.leap = true, leap{} }

// Complete notes that everything up to now has been seen.
func (t *Track) Complete() { t.gap = false }

// news tells how an observation relates to what was known.
type news int

const (
	oldNews news = iota // to be ignored
	overtaken
	same
	changed
)

// learn takes in a state. A state that was read, rather than watched, names
// the moment its request was sent: it speaks for that moment or later. own
// tells whether the state known before was our own term's.
func (t *Track) learn(now Instant, obs Observation, read bool, sent Instant, own bool, fallback time.Duration) news {
	if !read {
		t.landing(obs)
	}
	unchanged := t.known && t.obs.Exists == obs.Exists && t.obs.UID == obs.UID && t.obs.Record.Equal(obs.Record)
	rewound := false
	if t.known && !unchanged {
		older := obs.Revision != 0 && obs.Revision < t.newest
		switch {
		case read && sent <= t.newestAt && (older || obs.Revision == 0):
			// Something newer came in while the request was under way.
			return overtaken
		case older && !read:
			if obs.Exists && obs.Record.Holder != "" && obs.UID != t.obs.UID {
				// A life of the lock that we learn of after its end: its holder
				// may not know of the end yet.
				t.vanished(now, protection(obs.Record, fallback))
			}
			return oldNews
		case older:
			rewound = true
		}
	}
	if obs.Revision > t.newest || rewound {
		t.newest = obs.Revision
	}
	prev, wasKnown := t.obs, t.known
	t.obs, t.known = obs, true
	if t.unseen && (read || !unchanged) {
		t.unseen = false
		if !obs.Exists {
			// Somebody made the lock and it was deleted before we saw whose.
			t.vanished(now, fallback)
		}
	}
	if unchanged {
		return same
	}
	t.newestAt = now
	t.rewound = t.rewound || rewound
	if wasKnown && prev.Exists && prev.Record.Holder != "" && !own {
		before := t.bounds()
		t.vanish(now, prev, obs, fallback)
		if read && !rewound {
			t.leapt(prev, obs, before)
		}
	}
	t.since, t.lapsed = now, false
	return changed
}

// vanish keeps a holder's time in mind when its record went without having
// been released. Its last renewal may have been as late as this moment.
func (t *Track) vanish(now Instant, prev, obs Observation, fallback time.Duration) {
	d := protection(prev.Record, fallback)
	running := now < t.since.Add(d)
	switch {
	case SameTerm(prev, obs):
	case !obs.Exists, obs.UID != prev.UID:
		// That its time seems over proves nothing here: a renewal that was not
		// seen may have come before the deletion.
		if !t.lapsed {
			t.vanished(now, d)
		}
	case obs.Record.Holder != "" && running:
		t.dirtyUntil = max(t.dirtyUntil, now.Add(d))
		if !t.gap {
			// Nothing was missed, so nobody released it either: whoever wrote
			// this did not wait, and the former holder may not know yet.
			t.vanished(now, d)
		}
	}
}

// vanished notes that a holder may be at work for d from now on.
func (t *Track) vanished(now Instant, d time.Duration) {
	t.heldUntil = max(t.heldUntil, now.Add(d))
	t.dirtyUntil = max(t.dirtyUntil, now.Add(d))
}

// protection is how long a record protects its holder: what is stored in it,
// or the observer's own lease duration where it stores none (S1).
func protection(r Record, fallback time.Duration) time.Duration {
	if r.Duration > 0 {
		return r.Duration
	}
	return fallback
}

// SameTerm reports whether two states name the same term: the acquire time
// identifies it, also when its live holder recreated a deleted lock. Without
// one, as in a kubelet's Lease, it is the holder in the same lock.
func SameTerm(a, b Observation) bool {
	if !a.Exists || !b.Exists || a.Record.Holder == "" || a.Record.Holder != b.Record.Holder {
		return false
	}
	if a.Record.Acquired.IsZero() || b.Record.Acquired.IsZero() {
		return a.UID == b.UID
	}
	return a.Record.Acquired.Equal(b.Record.Acquired)
}

// expiry is when the holder's time is over, as long as nothing changes: Never
// when nobody holds the lock or its record has no duration and the fallback is
// zero.
func (t *Track) expiry(fallback time.Duration) Instant {
	if !t.known || !t.obs.Exists || t.obs.Record.Holder == "" {
		return Never
	}
	d := protection(t.obs.Record, fallback)
	if d <= 0 {
		return Never
	}
	return t.since.Add(d)
}

// view returns the state as others may be told, and false when there is none
// yet: a lock that vanished under its holder counts as held until the holder's
// time is over.
func (t *Track) view(m Moment, own bool) (View, bool) {
	if !t.known {
		return View{}, false
	}
	v := View{Obs: t.obs, At: m.Wall, Own: own, Gap: t.gap, Rewound: t.rewound}
	switch {
	case !t.obs.Exists:
		if m.Now < t.heldUntil {
			return View{}, false
		}
		v.Status = Absent
	case t.obs.Record.Holder == "":
		v.Status = Free
	case t.lapsed:
		v.Status = Lapsed
	default:
		v.Status = Held
	}
	return v, true
}

// tell returns the views that are news, in order. A lock that was deleted and
// recreated for another term was absent in between, even if nobody saw it.
func (t *Track) tell(m Moment, own bool) []View {
	v, ok := t.view(m, own)
	if !ok {
		return nil
	}
	key := keyOf(v)
	if key == t.told {
		return nil
	}
	var views []View
	if t.told.status == Held && v.Obs.Exists && v.Obs.UID != t.told.uid && !t.toldTerm(v.Obs) {
		gone := v
		gone.Status, gone.Own, gone.Obs = Absent, false, Observation{}
		if v.Obs.Revision > 0 {
			gone.Obs.Revision = v.Obs.Revision - 1 // before the new lock
		}
		views = append(views, gone)
		v.Gap = false
	}
	t.told, t.gap, t.rewound = key, false, false
	return append(views, v)
}

// tellLapsed reports that base, the state that our own write replaced, had
// run out: the write's success proves that nobody had renewed it.
func (t *Track) tellLapsed(m Moment, base Observation) []View {
	if t.told.status != Held || !t.toldTerm(base) {
		return nil
	}
	v := View{Status: Lapsed, Obs: base, At: m.Wall, Gap: t.gap, Rewound: t.rewound}
	t.told, t.gap, t.rewound = keyOf(v), false, false
	return []View{v}
}

// toldTerm reports whether obs names the term that was told last.
func (t *Track) toldTerm(obs Observation) bool {
	if !obs.Exists || t.told.holder == "" || t.told.holder != obs.Record.Holder {
		return false
	}
	acquired := stampOf(obs.Record.Acquired)
	if acquired == 0 || t.told.acquired == 0 {
		return t.told.uid == obs.UID
	}
	return t.told.acquired == acquired
}

func keyOf(v View) told {
	k := told{status: v.Status, uid: v.Obs.UID, own: v.Own}
	if v.Status == Held || v.Status == Lapsed {
		r := v.Obs.Record
		k.holder, k.acquired = r.Holder, stampOf(r.Acquired)
		k.epoch, k.epochAcquired = r.Epoch, stampOf(r.EpochAcquired)
	}
	return k
}
