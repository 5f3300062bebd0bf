package core

import (
	"slices"
	"testing"
	"time"
)

// A standby that starts during a hand-over may read the new holder while its
// watch, which begins in a cache, still tells of the old one. What the watch
// tells next decides whether the old holder must be waited for.
func TestAReadAheadOfTheWatch(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	state := func(revision uint64, holder string) Observation {
		o := Observation{Exists: true, UID: "u", Revision: revision, Record: Record{
			Holder: holder, Duration: 15 * time.Second, Renewed: start.Add(time.Duration(revision) * time.Second),
		}}
		if holder != "" {
			o.Record.Acquired = start.Add(time.Duration(holder[0]) * time.Minute)
		}
		return o
	}
	for _, c := range []struct {
		name    string
		watched []Observation // after the first state, a at 10, and the read, b at 20
		waits   bool
	}{
		{"released in between", []Observation{state(15, ""), state(20, "b")}, false},
		{"released and taken several times", []Observation{state(12, ""), state(13, "c"), state(14, "c"), state(15, ""), state(20, "b")}, false},
		{"released, and the next state seen is a renewal", []Observation{state(15, ""), state(21, "b")}, false},
		{"overwritten", []Observation{state(20, "b")}, true},
		{"renewed, then overwritten", []Observation{state(15, "a"), state(20, "b")}, true},
		{"another's overwritten", []Observation{state(15, ""), state(16, "c"), state(20, "b")}, true},
		{"overwritten by another, who released", []Observation{state(15, "c"), state(16, ""), state(20, "b")}, true},
		{"not told of any more", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := New(Config{Identity: "me", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, DrainTimeout: 15 * time.Second})
			now := Instant(time.Hour)
			step := func(in Input) []Action {
				now = now.Add(time.Millisecond)
				return slices.Clone(s.Step(Moment{Now: now, Wall: start.Add(time.Duration(now))}, in))
			}
			id := uint64(0)
			for _, a := range append(step(WatchUp{}), step(Watched{Obs: state(10, "a")})...) {
				if r, ok := a.(Read); ok {
					id = r.ID
				}
			}
			if id == 0 {
				t.Fatal("no read once the watch is up")
			}
			step(ReadDone{ID: id, Obs: state(20, "b")})
			for _, o := range c.watched {
				step(Watched{Obs: o})
			}
			taken := slices.ContainsFunc(step(Watched{Obs: state(30, "")}), func(a Action) bool {
				w, ok := a.(Write)
				return ok && w.Kind == Acquire
			})
			if taken == c.waits {
				t.Errorf("taken the moment it was free: %t, want %t", taken, !c.waits)
			}
		})
	}
}
