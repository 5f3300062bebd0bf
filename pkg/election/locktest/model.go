package locktest

import (
	"errors"
	"math/rand/v2"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// testModel makes a long random walk over all writes, from bases of any age,
// and compares each outcome with what a store of one state would say.
func (s suite) model() {
	t, f := s.t, s.f
	const steps = 300
	seed := rand.Uint64() // #nosec G404 -- a test
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- a test
	locks := []election.Lock{f.Open(t), f.Open(t)}
	var (
		now    election.Observation
		bases  = []election.Observation{{}}
		top    uint64
		counts = map[string]int{}
	)
	accept := func(o election.Observation) {
		if o.Revision <= top {
			t.Fatalf("revision %d after %d", o.Revision, top)
		}
		now, top = o, o.Revision
		bases = append(bases, o)
	}
	for range steps {
		l := locks[random.IntN(len(locks))]
		r := record(rival(random.IntN(rivals)))
		r.Epoch = random.Uint64N(3)
		switch random.IntN(10) {
		case 0: // create
			o, err := l.Create(bounded(t), r)
			if now.Exists {
				wantConflict(t, "create", err)
				counts["create refused"]++
			} else if err != nil {
				t.Fatalf("create: %v", err)
			} else {
				wantState(t, "create", o, r)
				accept(o)
				counts["created"]++
			}
		case 1: // delete
			if now.Exists && random.IntN(2) == 0 {
				f.Delete(t)
				now = election.Observation{}
				counts["deleted"]++
			}
		case 2: // read
			o := mustRead(t, l)
			if o.Exists != now.Exists || o.Exists && !same(o, now) {
				t.Fatalf("read %+v\nwant %+v", o, now)
			}
			if o.Exists {
				bases = append(bases, o)
			}
		case 3, 4: // update from any base
			base := bases[random.IntN(len(bases))]
			o, err := l.Update(bounded(t), base, r)
			if now.Exists && same(base, now) {
				if err != nil {
					t.Fatalf("update: %v", err)
				}
				accept(o)
				counts["updated"]++
			} else {
				if !errors.Is(err, election.ErrConflict) {
					t.Fatalf("update of %+v while at %+v: %v", base, now, err)
				}
				counts["update refused"]++
			}
		default: // update from the present state
			if !now.Exists {
				continue
			}
			accept(mustUpdate(t, l, now, r))
			counts["updated"]++
		}
	}
	for _, what := range []string{"created", "create refused", "deleted", "updated", "update refused"} {
		if counts[what] == 0 {
			t.Errorf("a walk of %d steps never saw %q: %v", steps, what, counts)
		}
	}
}
