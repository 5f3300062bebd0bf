package logbook_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patience bounds every wait. It is far above what a wait takes, since several
// test binaries share the machine.
const patience = 2 * time.Minute

var scheduler = events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"}

// team is some replicas on a real log, each with a book, a recorder and a
// connection of its own, and the lock that they look at.
type team struct {
	t        *testing.T
	replicas []*replica
	reader   *nats.Conn

	revision uint64
	uid      int
	terms    []reign // all that the lock went through, in order
}

type replica struct {
	name     string
	recorder *events.Recorder
}

type reign struct {
	holder   string
	acquired time.Time
}

// newTeam starts replicas with connections that connect makes, to servers that
// need not be there yet.
func newTeam(t *testing.T, connect func() *nats.Conn, names ...string) *team {
	t.Helper()
	m := &team{t: t, reader: connect(), uid: 1}
	for _, name := range names {
		book := logbook.New(connect(), events.Options{}, nil)
		r, err := events.NewRecorder(book, events.RecorderOptions{
			Reporter: events.Reporter{Identity: name, Perspective: events.ByWitness},
			Delay:    100 * time.Millisecond, Timeout: 2 * time.Second, RetryLimit: 500 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran, followed := make(chan error, 1), make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		go func() { followed <- book.Follow(ctx, scheduler, r, nil, func(error) {}) }()
		t.Cleanup(func() {
			cancel()
			if err := errors.Join(<-ran, <-followed); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		})
		m.replicas = append(m.replicas, &replica{name, r})
	}
	return m
}

// see shows a state of the lock to all.
func (m *team) see(o events.Observed) {
	o.At, o.UID, o.Revision, o.LeaseDurationSeconds = time.Now(), fmt.Sprint("u", m.uid), m.revision, new(15)
	for _, r := range m.replicas {
		own := o
		own.Own = o.Status == events.Held && o.Holder == r.name
		r.recorder.Observe(scheduler, own)
	}
}

// reign gives the lock to a holder, after an end of some kind.
func (m *team) reign(holder string, end events.Reason) {
	switch end {
	case events.Released:
		m.revision++
		m.see(events.Observed{Status: events.Free})
	case events.Expired:
		now := m.terms[len(m.terms)-1]
		m.see(events.Observed{Status: events.Lapsed, Holder: now.holder, AcquireTime: now.acquired})
	case events.Deleted:
		m.revision++
		m.see(events.Observed{Status: events.Absent})
		m.uid++
	default: // the record is overwritten, or was never there
	}
	m.revision++
	now := reign{holder, time.Now().Truncate(time.Microsecond)}
	m.terms = append(m.terms, now)
	m.see(events.Observed{Status: events.Held, Holder: holder, AcquireTime: now.acquired})
}

var (
	holders = []string{"a", "b", "c"}
	kinds   = []events.Reason{events.Released, events.Expired, events.Superseded, events.Deleted}
)

// history lets the lock change hands n times, with a pause before each.
func (m *team) history(n int, pause time.Duration) {
	for range n {
		time.Sleep(pause) // time itself is the subject: what a term lasts
		i := len(m.terms)
		m.reign(holders[i%len(holders)], kinds[i%len(kinds)])
	}
}

// settle waits until the log says all that the replicas saw, and returns it.
func (m *team) settle() []events.Event {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	for _, r := range m.replicas {
		if err := r.recorder.Flush(ctx, scheduler); err != nil {
			m.t.Fatalf("%s: %v", r.name, err)
		}
	}
	var all []events.Event
	testenv.Eventually(m.t, patience, func() (err error) {
		all, err = m.stored()
		return err
	})
	return all
}

// stored reads the whole log.
func (m *team) stored() ([]events.Event, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
	defer cancel()
	log, err := events.Open(ctx, m.reader, events.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	read, done := context.WithCancelCause(ctx)
	defer done(nil)
	end := errors.New("read")
	var all []events.Event
	err = log.Follow(read, events.FollowOptions{From: events.FromSequence(1), OnState: func(s events.FeedState) {
		if s.Current {
			done(end)
		}
	}}, func(e events.Entry) error {
		all = append(all, e.Event)
		return e.Err
	})
	if !errors.Is(err, end) {
		return nil, err
	}
	return all, nil
}

// check holds a log against what the lock went through: it is legal, and all
// terms from the given one on, counted from one, are in it once, in order, with
// their numbers and their own times.
func (m *team) check(all []events.Event, from int) {
	m.t.Helper()
	var epoch uint64
	open := ""
	next := from
	for i, e := range all {
		legal := false
		switch e.Transition {
		case events.BecameLeader:
			legal = open == "" && e.Epoch > epoch && (e.Epoch == epoch+1 || e.Missed > 0)
			epoch, open = e.Epoch, e.Leader
			if int(e.Epoch) < from {
				break
			}
			if int(e.Epoch) != next || next > len(m.terms) || e.Leader != m.terms[next-1].holder || !e.AcquireTime.Equal(m.terms[next-1].acquired) {
				m.t.Errorf("event %d begins term %d of %s, want term %d", i, e.Epoch, e.Leader, next)
				break
			}
			if off := e.Time.Sub(m.terms[next-1].acquired); off < 0 || off > 250*time.Millisecond {
				m.t.Errorf("event %d, the beginning of term %d, is %s off its time", i, e.Epoch, off)
			}
			next++
		case events.NewLeader:
			legal = e.Epoch == epoch && e.Leader == open && i > 0 && all[i-1].Transition == events.BecameLeader
		case events.StoppedLeading:
			legal = e.Epoch == epoch && e.PreviousLeader == open
			open = ""
		}
		if !legal {
			m.t.Errorf("event %d, %s %d of %s, is out of order", i, e.Transition, e.Epoch, e.Who())
		}
	}
	if next != len(m.terms)+1 {
		m.t.Errorf("the log ends with term %d, want %d", next-1, len(m.terms))
	}
	if m.t.Failed() {
		m.t.Logf("the log:\n%v", words(all))
	}
}

func words(all []events.Event) []string {
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = fmt.Sprintf("%s %d %s %s missed %d", e.Transition, e.Epoch, e.Who(), e.Reason, e.Missed)
	}
	return lines
}

func ids(all []events.Event) []string {
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = e.ID()
	}
	return slices.Clip(lines)
}
