package memlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/internal/memlock"
	"github.com/leaderbridge/leaderbridge/pkg/election/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	locktest.Run(t, func(*testing.T) locktest.Fixture {
		store := memlock.NewStore()
		var locks []*memlock.Lock
		return locktest.Fixture{
			Open: func(*testing.T) election.Lock {
				l := store.Open("test")
				locks = append(locks, l)
				return l
			},
			Delete: func(*testing.T) { store.Delete() },
			Overwrite: func(_ *testing.T, holder string) {
				r := store.State().Record
				r.Holder = holder
				store.Overwrite(r)
			},
			Disturb: func(*testing.T) {
				for _, l := range locks {
					l.BreakWatches()
				}
			},
			Hang: func(*testing.T) func() {
				for _, l := range locks {
					l.Intercept(func(memlock.Call) memlock.Fault { return memlock.Fault{Hang: true} })
				}
				return func() {
					for _, l := range locks {
						l.Intercept(nil)
					}
				}
			},
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			store = memlock.NewStore()
			l     = store.Open("l")
			r     = election.Record{Holder: "a", Duration: time.Second}
			fault memlock.Fault
		)
		l.Intercept(func(memlock.Call) memlock.Fault { return fault })
		create := func(f memlock.Fault) (time.Duration, error) {
			store.Delete()
			fault = f
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			_, err := l.Create(ctx, r)
			return time.Since(start), err
		}
		broken := errors.New("broken")
		for _, tc := range []struct {
			name  string
			fault memlock.Fault
			err   error
			took  time.Duration
			made  bool
		}{
			{"none", memlock.Fault{}, nil, 0, true},
			{"refuse", memlock.Fault{Refuse: true}, election.ErrRefused, 0, false},
			{"error", memlock.Fault{Err: broken}, broken, 0, false},
			{"hang", memlock.Fault{Hang: true}, context.DeadlineExceeded, 10 * time.Second, false},
			{"delay", memlock.Fault{Delay: 3 * time.Second}, nil, 3 * time.Second, true},
			{"delay both ways", memlock.Fault{Delay: 3 * time.Second, DelayAnswer: 2 * time.Second}, nil, 5 * time.Second, true},
			{"lost answer", memlock.Fault{LoseAnswer: true}, memlock.ErrLost, 0, true},
			{"hanging answer", memlock.Fault{HangAnswer: true}, context.DeadlineExceeded, 10 * time.Second, true},
		} {
			took, err := create(tc.fault)
			if !errors.Is(err, tc.err) || took != tc.took || store.State().Exists != tc.made {
				t.Errorf("%s: error %v after %s, made %v", tc.name, err, took, store.State().Exists)
			}
		}

		// A request arrives even when its sender has given up.
		if _, err := create(memlock.Fault{Delay: time.Minute}); !errors.Is(err, context.DeadlineExceeded) || store.State().Exists {
			t.Errorf("request under way: %v", err)
		}
		time.Sleep(time.Minute)
		if !store.State().Exists {
			t.Error("the late request did not arrive")
		}
	})
}

func TestDeafAndSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.NewStore()
		l := store.Open("l")
		store.Overwrite(election.Record{Holder: "a"})
		early := store.State()
		ch, err := l.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-ch
		l.HoldWatches(true)
		store.Overwrite(election.Record{Holder: "b"})
		synctest.Wait()
		select {
		case o := <-ch:
			t.Fatalf("a deaf watch heard %+v", o)
		default:
		}
		l.HoldWatches(false)
		if o := <-ch; o.Record.Holder != "b" {
			t.Fatalf("heard %+v", o)
		}
		store.SetBack(early)
		if o, open := <-ch; open {
			t.Fatalf("a watch survived with %+v", o)
		}
		if o, err := l.Read(t.Context()); err != nil || o.Revision != early.Revision || o.Record.Holder != "a" {
			t.Fatalf("read %+v, %v", o, err)
		}
		if n := len(store.History()); n != 3 {
			t.Fatalf("%d states in the history", n)
		}
	})
}
