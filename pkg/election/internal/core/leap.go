package core

// leap is a read that told of another holder before the watch has told how it
// came to that. Until the watch has caught up, the former holder counts as one
// whose record was overwritten under it: somebody has to wait out its time
// (S1). Mostly the watch then shows that it had released the lock in between,
// as for a candidate that starts during a hand-over and whose watch begins in a
// cache that lags: without this it would not take the lock for a whole lease
// duration when it is free next.
type leap struct {
	// to is what was read; its Revision is zero when there is no leap.
	to Observation
	// at is the last state known before it.
	at Observation
	// before and imposed are the track's bounds without the leap and with it.
	before, imposed bounds
}

// bounds are the moments until which a former holder may be at work.
type bounds struct{ held, dirty Instant }

func (t *Track) bounds() bounds { return bounds{t.heldUntil, t.dirtyUntil} }

// leapt notes a leap, if what was read at obs has raised the bounds.
func (t *Track) leapt(prev, obs Observation, before bounds) {
	if imposed := t.bounds(); imposed != before && obs.Exists && obs.UID == prev.UID {
		t.leap = leap{to: obs, at: prev, before: before, imposed: imposed}
	}
}

// landing takes in what the watch tells after a leap. States come in order, and
// each must follow from the one before without an overwritten holder.
func (t *Track) landing(obs Observation) {
	l := &t.leap
	next := obs
	if obs.Revision > l.to.Revision {
		next = l.to // it came in between, and the watch has left it out
	}
	switch {
	case l.to.Revision == 0 || obs.Revision <= l.at.Revision:
		return
	case !obs.Exists || obs.UID != l.at.UID || l.at.Record.Holder != "" && next.Record.Holder != "" && !SameTerm(l.at, next):
		*l = leap{} // what was imposed stays
		return
	case obs.Revision < l.to.Revision:
		l.at = obs
		return
	}
	// Unless something else has raised them since.
	if t.heldUntil == l.imposed.held {
		t.heldUntil = l.before.held
	}
	if t.dirtyUntil == l.imposed.dirty {
		t.dirtyUntil = l.before.dirty
	}
	*l = leap{}
}
