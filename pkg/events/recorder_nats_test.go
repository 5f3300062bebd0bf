package events_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// team is some replicas with a recorder each, on a real log, and the lock that
// they look at.
type team struct {
	names     []string
	recorders []*events.Recorder
	logs      []*events.Log
	revision  uint64
	holder    string
	acquired  time.Time
	uid       int
	// want is what the log has to say of the terms, in order.
	want  []string
	times []time.Time
}

// newTeam starts replicas that are named as in the list. Each has a connection
// of its own.
func newTeam(t *testing.T, open func() *events.Log, delay time.Duration, names ...string) *team {
	t.Helper()
	m := &team{names: names, uid: 1}
	for _, name := range names {
		log := open()
		r, err := events.NewRecorder(log, events.RecorderOptions{
			Reporter: events.Reporter{Identity: name, Perspective: events.ByWitness},
			Delay:    delay, Timeout: 2 * time.Second, RetryLimit: 500 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran, followed := make(chan error, 1), make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		go func() {
			followed <- log.Follow(ctx, events.FollowOptions{
				OnState: func(s events.FeedState) {
					if s.Current || errors.Is(s.Err, events.ErrLogRewound) {
						r.Recheck()
					}
				},
			}, func(entry events.Entry) error {
				if entry.Err == nil {
					r.Tailed(entry.Event.Election, events.Tail{Seq: entry.Seq, Last: entry.Event})
				}
				return nil
			})
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if err := <-followed; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		m.recorders, m.logs = append(m.recorders, r), append(m.logs, log)
	}
	return m
}

func (m *team) see(o events.Observed) {
	o.At = time.Now()
	for i, r := range m.recorders {
		own := o
		own.Own = o.Status == events.Held && o.Holder == m.names[i]
		r.Observe(scheduler, own)
	}
}

func (m *team) state(s events.Status) events.Observed {
	o := events.Observed{Status: s, UID: fmt.Sprint("u", m.uid), Revision: m.revision, LeaseDurationSeconds: new(15)}
	if s == events.Held || s == events.Lapsed {
		o.Holder, o.AcquireTime = m.holder, m.acquired
	}
	return o
}

// acquire gives the lock to a holder, after an end of the given kind.
func (m *team) acquire(holder string, end events.Reason) {
	m.revision++
	switch end {
	default: // the record is overwritten, or was never there
	case events.Released:
		m.see(m.state(events.Free))
	case events.Expired:
		m.revision--
		m.see(m.state(events.Lapsed))
	case events.Deleted:
		m.see(m.state(events.Absent))
		m.uid++
	}
	if end != "" {
		m.want = append(m.want, fmt.Sprintf("stopped-leading %d %s", len(m.times), end))
	}
	m.revision++
	m.holder, m.acquired = holder, time.Now().Truncate(time.Microsecond)
	m.see(m.state(events.Held))
	m.times = append(m.times, m.acquired)
	n := len(m.times)
	m.want = append(m.want, fmt.Sprintf("became-leader %d %s", n, holder), fmt.Sprintf("new-leader %d %s", n, holder))
}

// stored reads the whole log.
func stored(t *testing.T, log *events.Log) []events.Event {
	t.Helper()
	ctx, cancel := context.WithCancelCause(patient(t))
	defer cancel(nil)
	done := errors.New("read")
	var all []events.Event
	err := log.Follow(ctx, events.FollowOptions{
		From: events.FromSequence(1),
		OnState: func(s events.FeedState) {
			if s.Current {
				cancel(done)
			}
		},
	}, func(entry events.Entry) error {
		if entry.Err != nil {
			return entry.Err
		}
		all = append(all, entry.Event)
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	return all
}

func words(all []events.Event) []string {
	var lines []string
	for _, e := range all {
		what := e.Leader
		if e.Transition == events.StoppedLeading {
			what = string(e.Reason)
		}
		line := fmt.Sprintf("%s %d %s", e.Transition, e.Epoch, what)
		if e.Missed > 0 {
			line += fmt.Sprintf(" missed %d", e.Missed)
		}
		lines = append(lines, line)
	}
	return lines
}

// check waits until all is in the log, and holds the log against what it has to
// say.
func (m *team) check(t *testing.T) []events.Event {
	t.Helper()
	for i, r := range m.recorders {
		if err := r.Flush(patient(t), scheduler); err != nil {
			t.Fatalf("%s: %v", m.names[i], err)
		}
	}
	all := stored(t, m.logs[0])
	if got := words(all); !slices.Equal(got, m.want) {
		t.Fatalf("the log says\n%q\nwant\n%q", got, m.want)
	}
	return all
}

// soon is how long witnesses wait where the test does not depend on it.
const soon = 100 * time.Millisecond

var kinds = []events.Reason{events.Released, events.Expired, events.Superseded, events.Deleted}

// Three replicas on a real server, with and without atomic batches: each
// hand-over is three events, once and in order, and each leader learns its
// number. Witnesses have no reason to speak.
func TestRecorderOnNATS(t *testing.T) {
	modes(t, func(t *testing.T, atomic bool) {
		t.Helper()
		s := natsenv.Start(t)
		m := newTeam(t, func() *events.Log { return openAtomic(t, s, atomic) }, patience, "a", "b", "w")
		m.acquire("a", "")
		for i := range 12 {
			leader := i % 2
			testenv.Eventually(t, patience, func() error {
				if n := m.recorders[leader].Epoch(scheduler); n != uint64(i+1) {
					return fmt.Errorf("%s has the number %d, want %d", m.names[leader], n, i+1)
				}
				return nil
			})
			m.acquire(m.names[1-leader], kinds[i%len(kinds)])
		}
		for _, e := range m.check(t) {
			if e.Transition == events.BecameLeader && (e.Perspective != events.ByLeader || e.Reporter != e.Leader) {
				t.Errorf("became-leader %d is told by %s as %s", e.Epoch, e.Reporter, e.Perspective)
			}
		}
	})
}

// The server is away while five terms come and go. All are in the log
// afterwards, in order, once, and with their own times.
func TestRecorderNATSAway(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			s := natsenv.Start(t)
			m := newTeam(t, func() *events.Log { return openLog(t, s, events.Options{}) }, soon, []string{"w", "a", "b"}[:replicas]...)
			m.acquire("a", "")
			m.check(t)
			s.Stop()
			for i := range 5 {
				time.Sleep(200 * time.Millisecond) // the time that the terms take
				m.acquire([]string{"b", "c", "a"}[i%3], kinds[i%len(kinds)])
			}
			s.Restart(t)
			for _, e := range m.check(t) {
				if e.Transition == events.StoppedLeading {
					continue
				}
				if off := e.Time.Sub(m.times[e.Epoch-1]); off < 0 || off > 150*time.Millisecond {
					t.Errorf("%s %d is %s off its time", e.Transition, e.Epoch, off)
				}
			}
		})
	}
}

// The stream is deleted: it is made again, the present leader is told again,
// and its number does not go back.
func TestRecorderStreamDeleted(t *testing.T) {
	s := natsenv.Start(t)
	m := newTeam(t, func() *events.Log { return openLog(t, s, events.Options{}) }, soon, "a", "b", "w")
	m.acquire("a", "")
	m.acquire("b", events.Released)
	m.check(t)
	if err := s.JetStream(t).DeleteStream(patient(t), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	m.want = []string{"became-leader 2 b missed 1", "new-leader 2 b missed 1"}
	m.acquire("a", events.Expired)
	m.check(t)
}

// The stream loses its end, as after a restored backup.
func TestRecorderStreamSetBack(t *testing.T) {
	s := natsenv.Start(t)
	m := newTeam(t, func() *events.Log { return openLog(t, s, events.Options{}) }, soon, "a", "b", "w")
	m.acquire("a", "")
	m.acquire("b", events.Released)
	m.acquire("c", events.Expired)
	m.check(t)
	stream, err := s.JetStream(t).Stream(patient(t), events.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(8); seq > 3; seq-- { // all after stopped-leading 1
		if err := stream.DeleteMsg(patient(t), seq); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range m.recorders {
		r.Recheck()
	}
	m.want = append(m.want[:3:3], "became-leader 3 c missed 1", "new-leader 3 c missed 1")
	m.check(t)
}

// The servers of a cluster are lost one after the other, the stream's leader
// among them, while the lock changes hands.
func TestRecorderServersLost(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of three takes its time")
	}
	c := natsenv.StartCluster(t)
	open := func() *events.Log {
		log, err := events.Open(patient(t), c.Connect(t), events.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	m := newTeam(t, open, soon, "a", "b", "w")
	m.acquire("a", "")
	holders := []string{"b", "a", "c"}
	for i := range 6 {
		leader := c.StreamLeader(t, events.DefaultStream)
		m.acquire(holders[i%3], kinds[i%len(kinds)])
		c.Stop(leader)
		m.acquire(holders[(i+1)%3], kinds[(i+1)%len(kinds)])
		m.acquire(holders[(i+2)%3], kinds[(i+2)%len(kinds)])
		c.Restart(t, leader)
		m.acquire(holders[i%3], kinds[(i+3)%len(kinds)])
	}
	m.check(t)
}
