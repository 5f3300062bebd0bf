package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = fmt.Errorf("%w: the test says so", ErrUnavailable)

// memory is a log of one stream in memory, with the faults of a real one.
type memory struct {
	mu     sync.Mutex
	seq    uint64
	logs   map[Election][]Event
	tails  map[Election]Tail
	gone   bool // the stream does not exist
	faults func(doing string) fault
	// readers are told of every event, after lag.
	readers []*Recorder
	lag     func() time.Duration
	appends int
}

// fault is what befalls one request: it waits, fails, or loses its answer.
type fault struct {
	wait time.Duration
	err  error
	mute bool // it was done, and nobody hears of it
	half bool // of an append, only the first event is stored
}

func newMemory() *memory {
	return &memory{logs: map[Election][]Event{}, tails: map[Election]Tail{}}
}

func (m *memory) suffer(ctx context.Context, doing string) fault {
	// One call at a time, so that faults may count.
	m.mu.Lock()
	faults := m.faults
	if faults == nil {
		m.mu.Unlock()
		return fault{}
	}
	f := faults(doing)
	m.mu.Unlock()
	select {
	case <-time.After(f.wait):
	case <-ctx.Done():
		f.err = ctx.Err()
	}
	return f
}

func (m *memory) setFaults(faults func(doing string) fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = faults
}

func (m *memory) Tail(ctx context.Context, e Election) (Tail, error) {
	if f := m.suffer(ctx, "tail"); f.err != nil {
		return Tail{}, f.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return Tail{}, ErrNoStream
	}
	return m.tails[e], nil
}

// AppendEach lets no election wait for another.
func (m *memory) AppendEach(ctx context.Context, all []Addition, told func(int, uint64, error)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, add := range all {
		one := func() {
			last, err := m.Append(ctx, add.Election, add.After, add.Events...)
			told(i, last, err)
		}
		if m.faultless() {
			one()
		} else {
			wg.Go(one)
		}
	}
}

func (m *memory) faultless() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.faults == nil
}

func (m *memory) Append(ctx context.Context, e Election, after uint64, events ...Event) (uint64, error) {
	f := m.suffer(ctx, "append")
	if f.err != nil {
		return 0, f.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appends++
	if m.gone {
		return 0, ErrNoStream
	}
	if m.tails[e].Seq != after {
		return 0, ErrBehind
	}
	for i, event := range events {
		if err := event.Validate(); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		m.seq++
		m.logs[e] = append(m.logs[e], event)
		m.tails[e] = Tail{Seq: m.seq, Last: event}
		m.spread(e)
		if f.half && i == 0 {
			return m.seq, ErrOutcomeUnknown
		}
	}
	if f.mute {
		return 0, ErrOutcomeUnknown
	}
	return m.seq, nil
}

func (m *memory) spread(e Election) {
	t := m.tails[e]
	for _, r := range m.readers {
		if m.lag == nil {
			r.Tailed(e, t)
			continue
		}
		time.AfterFunc(m.lag(), func() { r.Tailed(e, t) })
	}
}

func (m *memory) Ensure(ctx context.Context) error {
	if f := m.suffer(ctx, "ensure"); f.err != nil {
		return f.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = false
	return nil
}

// lose forgets all but the first n events of the election, or all of them and
// the stream as well.
func (m *memory) lose(e Election, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[e] = m.logs[e][:n:n]
	m.seq = uint64(n)
	m.tails[e] = tailOf(m.logs[e])
	m.gone = n == 0
}

func (m *memory) log(e Election) []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Event(nil), m.logs[e]...)
}

// recorder makes a recorder that runs until the test, or the bubble, ends.
func (m *memory) recorder(tb testing.TB, name string, change ...func(*RecorderOptions)) *Recorder {
	tb.Helper()
	opts := RecorderOptions{Reporter: Reporter{Identity: name, Perspective: ByWitness}}
	for _, f := range change {
		f(&opts)
	}
	r, err := NewRecorder(m, opts)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	m.mu.Lock()
	m.readers = append(m.readers, r)
	m.mu.Unlock()
	return r
}

// logged waits until all is quiet and checks what the log says.
func (m *memory) logged(tb testing.TB, want string) {
	tb.Helper()
	synctest.Wait()
	if got := told(m.log(someElection)); got != want {
		tb.Errorf("after %s the log says\n%s\nwant\n%s", time.Since(bubble()), got, want)
	}
}

// bubble is when a synctest bubble begins.
func bubble() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func readsFrom(read func(ctx context.Context, e Election) (Observed, error)) func(*RecorderOptions) {
	return func(o *RecorderOptions) { o.Read = read }
}

// stored answers reads with a state that the test changes.
type stored struct {
	mu    sync.Mutex
	state Observed
	err   error
	reads int
}

func (s *stored) set(o Observed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = o, err
}

func (s *stored) read(context.Context, Election) (Observed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.state, s.err
}

const (
	firstTerm  = "became(1 a acquired), new(1 a acquired)"
	secondTerm = "became(2 b acquired), new(2 b acquired)"
)

// The leader reports its own term at once, a witness leaves it time to do so.
func TestRecorderLeaderAtOnceWitnessLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, w := m.recorder(t, "a"), m.recorder(t, "w")
		a.Observe(someElection, held("a", 1, 1, own))
		w.Observe(someElection, held("a", 1, 1))
		m.logged(t, firstTerm)
		if e := m.log(someElection)[0]; e.Reporter != "a" || e.Perspective != ByLeader {
			t.Errorf("the leader did not report itself: %+v", e)
		}
		w.Observe(someElection, held("b", 5, 6))
		m.logged(t, firstTerm)
		time.Sleep(time.Second - 1)
		m.logged(t, firstTerm) // half the delay at least
		time.Sleep(2*time.Second + 1)
		m.logged(t, firstTerm+", stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)")
	})
}

// What a witness saw before the own term began is reported with it.
func TestRecorderOwnTermTakesAlongWhatLiesBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		b := m.recorder(t, "b")
		b.Observe(someElection, held("a", 1, 1))
		time.Sleep(time.Minute)
		b.Observe(someElection, free(5))
		b.Observe(someElection, held("b", 6, 6, own))
		m.logged(t, firstTerm+", stopped(1 a released), "+secondTerm)
	})
}

// Only what the log lacks is written, however many replicas look on.
func TestRecorderManyReplicasWriteOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.lag = func() time.Duration { return rand.N(3 * time.Second) }
		for i := range 7 {
			r := m.recorder(t, fmt.Sprint("w", i))
			for _, o := range []Observed{held("a", 1, 1), free(5), held("b", 6, 6)} {
				r.Observe(someElection, o)
			}
		}
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a released), "+secondTerm)
	})
}

// outage is ten minutes without NATS, in which the lock changes hands four
// times, in all ways.
var outage = []struct {
	after time.Duration
	state Observed
}{
	{1 * time.Minute, free(10)},
	{0, held("b", 11, 11)},
	{2 * time.Minute, held("b", 11, 20, lapsed)},
	{time.Second, held("c", 21, 21)},
	{2 * time.Minute, held("d", 30, 30)},
	{1 * time.Minute, absent(40)},
	{time.Second, held("e", 41, 41, uid("u2"))},
}

// NATS away for ten minutes with five terms in between: all five are in the log
// afterwards, in order, with their own times, once, for any number of replicas.
func TestRecorderOutage(t *testing.T) {
	for _, replicas := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.lag = func() time.Duration { return rand.N(20 * time.Millisecond) }
				names := []string{"a", "e", "b", "c", "w"}[:replicas]
				var rs []*Recorder
				for _, name := range names {
					rs = append(rs, m.recorder(t, name))
				}
				see := func(o Observed) {
					for i, r := range rs {
						o.At = time.Now()
						o.Own = o.Status == Held && o.Holder == names[i]
						r.Observe(someElection, o)
					}
				}
				see(held("a", 1, 1))
				time.Sleep(time.Minute)
				m.setFaults(func(string) fault { return fault{err: errAway, wait: time.Duration(rand.N(2)) * time.Second} })
				began := map[string]time.Time{"a": bubble()}
				for _, step := range outage {
					time.Sleep(step.after)
					if step.state.Status == Held {
						began[step.state.Holder] = time.Now()
					}
					see(step.state)
				}
				time.Sleep(time.Until(bubble().Add(11 * time.Minute)))
				m.logged(t, firstTerm)
				for i, r := range rs {
					if s := r.Stats(); s.Queued != len(outage) || s.LastError == nil || s.Dropped != 0 {
						t.Errorf("%s at the end of the outage: %+v", names[i], s)
					}
				}
				m.setFaults(nil)
				time.Sleep(20 * time.Second)
				m.logged(t, firstTerm+", stopped(1 a released), "+secondTerm+
					", stopped(2 b expired), became(3 c taken-over), new(3 c taken-over)"+
					", stopped(3 c superseded), became(4 d taken-over), new(4 d taken-over)"+
					", stopped(4 d deleted), became(5 e acquired), new(5 e acquired)")
				for _, e := range m.log(someElection) {
					if e.Transition != StoppedLeading && !e.Time.Equal(began[e.Leader]) {
						t.Errorf("%s of %s at %s, want %s", e.Transition, e.Leader, e.Time, began[e.Leader])
					}
					if e.Missed > 0 {
						t.Errorf("%s of %s has missed %d", e.Transition, e.Leader, e.Missed)
					}
				}
				for i, r := range rs {
					if s := r.Stats(); s.Queued != 0 || s.LastError != nil || s.Dropped != 0 {
						t.Errorf("%s after the outage: %+v", names[i], s)
					}
				}
			})
		})
	}
}

// More states than fit: the oldest in the middle go, and the log says how many
// terms are missing.
func TestRecorderOverflowIsAnnounced(t *testing.T) {
	for _, counted := range []bool{true, false} {
		t.Run(fmt.Sprintf("counted=%t", counted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				var dropped int
				w := m.recorder(t, "w", func(o *RecorderOptions) {
					o.QueueLimit = 4
					o.Hooks.Dropped = func(Election, Observed, error) { dropped++ }
				})
				const terms = 10
				state := func(i int) Observed {
					o := held(fmt.Sprint("h", i), i, uint64(i))
					if counted {
						o.LeaseTransitions = new(i)
					}
					return o
				}
				w.Observe(someElection, state(1))
				time.Sleep(time.Minute)
				m.setFaults(func(string) fault { return fault{err: errAway} })
				for i := 2; i <= terms; i++ {
					w.Observe(someElection, state(i))
					time.Sleep(10 * time.Second)
				}
				m.setFaults(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				log := m.log(someElection)
				var became, missed uint64
				for _, e := range log {
					if e.Transition == BecameLeader {
						became++
						missed += e.Missed
					}
				}
				if became != 5 || missed != terms-5 || log[len(log)-1].Leader != "h10" {
					t.Errorf("%d terms in the log, %d missed:\n%s", became, missed, told(log))
				}
				if s := w.Stats(); dropped != terms-5 || s.Dropped != terms-5 || s.Queued != 0 {
					t.Errorf("%d dropped, stats %+v", dropped, s)
				}
			})
		})
	}
}

// What one replica had to drop is no hole in the log when another wrote it.
func TestRecorderOverflowFilledByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		small := m.recorder(t, "small", func(o *RecorderOptions) { o.QueueLimit = 4 })
		large := m.recorder(t, "large")
		m.setFaults(func(string) fault { return fault{err: errAway} })
		for i := 1; i <= 12; i++ {
			for _, r := range []*Recorder{small, large} {
				r.Observe(someElection, held(fmt.Sprint("h", i), i, uint64(i)))
			}
			time.Sleep(5 * time.Second)
		}
		m.setFaults(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, e := range m.log(someElection) {
			if e.Missed > 0 || e.Epoch != uint64(i/3+1) && e.Transition == BecameLeader {
				t.Fatalf("event %d: %+v", i, e)
			}
		}
		if n := len(m.log(someElection)); n != 12*3-1 {
			t.Errorf("%d events:\n%s", n, told(m.log(someElection)))
		}
	})
}

// The answer to an append is lost: the recorder looks, and writes nothing twice.
func TestRecorderLostAnswers(t *testing.T) {
	for _, f := range []fault{{mute: true}, {half: true}, {err: ErrOutcomeUnknown}, {err: context.DeadlineExceeded}} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.lag = func() time.Duration { return 0 }
			w := m.recorder(t, "w")
			n := 0
			m.setFaults(func(doing string) fault {
				if n++; n%3 == 0 || doing != "append" {
					return fault{}
				}
				return f
			})
			for _, o := range []Observed{held("a", 1, 1), free(5), held("b", 6, 6)} {
				w.Observe(someElection, o)
			}
			time.Sleep(time.Minute)
			m.logged(t, firstTerm+", stopped(1 a released), "+secondTerm)
		})
	}
}

// A lapse is reported when the store shows that nobody has renewed, and not
// before the store can be asked.
func TestRecorderChecksALapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), &stored{}
		w := m.recorder(t, "w", readsFrom(s.read))
		w.Observe(someElection, held("a", 1, 1))
		time.Sleep(time.Minute)

		// The watch is behind: the holder has renewed.
		s.set(held("a", 1, 9), nil)
		w.Observe(someElection, held("a", 1, 1, lapsed))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm)
		w.Observe(someElection, held("a", 1, 9))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm)
		if s := w.Stats(); s.Queued != 0 {
			t.Errorf("stats %+v", s)
		}

		s.set(Observed{}, errors.New("the API server is away"))
		w.Observe(someElection, held("a", 1, 9, lapsed))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm)
		s.set(held("a", 1, 9), nil)
		time.Sleep(10 * time.Second)
		m.logged(t, firstTerm+", stopped(1 a expired)")
	})
}

// A holder that is back before its end was due to be reported has not gone.
func TestRecorderForgivesAShortAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.recorder(t, "w")
		w.Observe(someElection, held("n", 0, 1, anonymous))
		time.Sleep(time.Minute)
		w.Observe(someElection, held("n", 0, 1, anonymous, lapsed))
		time.Sleep(500 * time.Millisecond)
		w.Observe(someElection, absent(2))
		time.Sleep(400 * time.Millisecond)
		w.Observe(someElection, held("n", 0, 3, anonymous, uid("u2")))
		time.Sleep(time.Minute)
		m.logged(t, "became(1 n acquired), new(1 n acquired)")

		w.Observe(someElection, absent(7))
		time.Sleep(time.Minute)
		w.Observe(someElection, held("n", 0, 9, anonymous, uid("u3")))
		time.Sleep(time.Minute)
		m.logged(t, "became(1 n acquired), new(1 n acquired), stopped(1 n deleted), became(2 n acquired), new(2 n acquired)")
	})
}

// The leader's word about its end is the last one about its term, for itself
// and for others.
func TestRecorderOwnEndIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, w := m.recorder(t, "a"), m.recorder(t, "w")
		a.Observe(someElection, held("a", 1, 1, own))
		w.Observe(someElection, held("a", 1, 1))
		time.Sleep(time.Minute)
		a.Observe(someElection, held("a", 1, 1, ended(Released)))
		m.logged(t, firstTerm+", stopped(1 a released)")
		for _, r := range []*Recorder{a, w} { // a renewal that was on its way
			r.Observe(someElection, held("a", 1, 7))
		}
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a released)")
	})
}

// A leader that has ended its term reads became-leader of the next one. It leaves
// the news of it to the next leader, and tells them if that one is dead.
func TestRecorderLeavesTheNewsToTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		told := make(chan time.Time, 3)
		a := m.recorder(t, "a", func(o *RecorderOptions) {
			o.Hooks.Appended = func(Election, []Event, uint64, time.Duration) { told <- time.Now() }
		})
		a.Observe(someElection, held("a", 1, 1, own))
		<-told
		a.Observe(someElection, held("a", 1, 1, ended(Released)))
		<-told
		tail, err := m.Tail(t.Context(), someElection)
		if err != nil {
			t.Fatal(err)
		}
		next := Reconcile(someElection, tail, held("b", 5, 6, own), Reporter{Identity: "b", Perspective: ByWitness})
		if _, err := m.Append(t.Context(), someElection, tail.Seq, next[0]); err != nil {
			t.Fatal(err)
		}
		half := firstTerm + ", stopped(1 a released), became(2 b acquired)"
		m.logged(t, half)
		read := time.Now()
		if took := (<-told).Sub(read); took < time.Second || took > 3*time.Second {
			t.Errorf("told the news after %s, want half the delay at least and one and a half at most", took)
		}
		m.logged(t, half+", new(2 b acquired)")
	})
}

// A leader that was paused learns of its end from its successor's record, and
// may say so with a revision that is not its own. It ends its own term only.
func TestRecorderPausedLeaderEndsOnlyItsOwnTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := m.recorder(t, "a"), m.recorder(t, "b")
		a.Observe(someElection, held("a", 1, 1, own))
		time.Sleep(time.Minute)
		b.Observe(someElection, held("a", 1, 2, lapsed))
		b.Observe(someElection, held("b", 6, 6, own))
		time.Sleep(time.Minute)
		a.Observe(someElection, held("a", 1, 9, ended(Superseded)))
		a.Observe(someElection, held("b", 6, 9))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a expired), became(2 b taken-over), new(2 b taken-over)")

		// The other way round, too.
		a.Observe(someElection, held("a", 20, 20, own))
		b.Observe(someElection, held("a", 20, 20))
		b.Observe(someElection, held("b", 6, 20, ended(Superseded)))
		time.Sleep(time.Minute)
		want := firstTerm + ", stopped(1 a expired), became(2 b taken-over), new(2 b taken-over), stopped(2 b superseded), became(3 a taken-over), new(3 a taken-over)"
		m.logged(t, want)
		b.Observe(someElection, held("a", 20, 21))
		time.Sleep(time.Minute)
		m.logged(t, want)
	})
}

// A leader reported as expired that renews all the same gets a new number, and
// learns it.
func TestRecorderResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var numbers []uint64
		a := m.recorder(t, "a", func(o *RecorderOptions) {
			o.Hooks.Assigned = func(_ Election, o Observed, epoch uint64) {
				if o.Holder != "a" {
					t.Errorf("a number for %+v", o)
				}
				numbers = append(numbers, epoch)
			}
		})
		w := m.recorder(t, "w")
		a.Observe(someElection, held("a", 1, 1, own))
		time.Sleep(time.Minute)
		w.Observe(someElection, held("a", 1, 1))
		w.Observe(someElection, held("a", 1, 1, lapsed))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a expired)")
		if n := a.Epoch(someElection); n != 0 {
			t.Errorf("epoch %d after the term was reported as over", n)
		}
		a.Observe(someElection, held("a", 1, 2, own)) // a renewal, no new state
		m.logged(t, firstTerm+", stopped(1 a expired), became(2 a resumed), new(2 a resumed)")
		if fmt.Sprint(numbers) != "[1 2]" || a.Epoch(someElection) != 2 || w.Epoch(someElection) != 0 {
			t.Errorf("numbers %v, epoch %d, another's %d", numbers, a.Epoch(someElection), w.Epoch(someElection))
		}
	})
}

// The number of the own term is told also when another wrote it.
func TestRecorderLearnsItsNumberFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var number uint64
		a := m.recorder(t, "a", func(o *RecorderOptions) {
			o.Hooks.Assigned = func(_ Election, _ Observed, epoch uint64) { number = epoch }
		})
		m.setFaults(func(doing string) fault {
			if doing == "append" {
				return fault{err: errAway}
			}
			return fault{}
		})
		a.Observe(someElection, held("a", 1, 1, own))
		synctest.Wait()
		if number != 0 {
			t.Fatalf("number %d before the log has one", number)
		}
		m.setFaults(nil)
		if _, err := m.Append(t.Context(), someElection, 0, Reconcile(someElection, Tail{}, held("a", 1, 1), witness)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if number != 1 || len(m.log(someElection)) != 2 {
			t.Errorf("number %d, log %s", number, told(m.log(someElection)))
		}
	})
}

// The stream is lost, comes back empty, or comes back older: the present state
// is told again, and the number goes on from the one in the record.
func TestRecorderLogLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		keep  int
		state Observed
		want  string
	}{
		{"all, with a number in the record", 0, held("b", 6, 7, own, epoch(2, true)),
			"became(2 b acquired) missed 1, new(2 b acquired) missed 1"},
		{"all, without one", 0, held("b", 6, 7, own),
			"became(2 b acquired) missed 1, new(2 b acquired) missed 1"},
		{"the end", 3, held("b", 6, 7, own, epoch(2, true)), firstTerm + ", stopped(1 a released), " + secondTerm},
		{"more", 2, held("b", 6, 7, own, epoch(2, true)), firstTerm + ", stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)"},
		{"half a step", 4, held("b", 6, 7, own, epoch(2, true)), firstTerm + ", stopped(1 a released), " + secondTerm},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				b := m.recorder(t, "b")
				other := Election{Cluster: "default", Namespace: "prod", Lease: "other"}
				for _, o := range []Observed{held("a", 1, 1), free(5), held("b", 6, 6, own)} {
					b.Observe(someElection, o)
					time.Sleep(time.Minute)
				}
				m.logged(t, firstTerm+", stopped(1 a released), "+secondTerm)
				b.Observe(someElection, c.state)
				m.lose(someElection, c.keep)
				b.Recheck()
				time.Sleep(time.Minute)
				m.logged(t, c.want)

				// Without being told, it finds out at its next append.
				m.lose(someElection, c.keep)
				m.mu.Lock()
				m.gone = c.keep == 0
				m.mu.Unlock()
				b.Observe(other, held("z", 1, 1))
				b.Observe(someElection, held("b", 6, 8, ended(StepDown)))
				time.Sleep(time.Minute)
				log := m.log(someElection)
				m.logged(t, c.want+fmt.Sprintf(", stopped(%d b step-down)", log[len(log)-1].Epoch))
			})
		})
	}
}

// The stream is lost, and with it every process that knew the number, and the
// Lease: the leaders' bucket still knows it. What it tells is not told again.
func TestRecorderGoesOnFromTheBucket(t *testing.T) {
	before := func(events ...Event) Event { return events[len(events)-1] }
	for _, c := range []struct {
		name   string
		before Event
		states []Observed
		want   string
	}{
		{"another term", before(written(t, held("a", 1, 5)).Last), []Observed{held("b", 6, 7)},
			"became(2 b acquired) missed 1, new(2 b acquired) missed 1"},
		{"the same term", before(written(t, held("a", 1, 5)).Last), []Observed{held("a", 1, 7)}, firstTerm},
		{"the same term, whose end was told", before(written(t, held("a", 1, 5), free(6)).Last), []Observed{held("a", 1, 7)},
			"became(2 a acquired) missed 1, new(2 a acquired) missed 1"},
		{"terms that were told", before(written(t, held("a", 1, 5), held("b", 6, 6), held("c", 7, 7)).Last),
			[]Observed{held("a", 1, 5), held("b", 6, 6), held("c", 7, 7)}, "became(3 c acquired) missed 2, new(3 c acquired) missed 2"},
		{"terms that were told in part", before(written(t, held("a", 1, 5), held("b", 6, 6)).Last),
			[]Observed{held("a", 1, 5), held("b", 6, 6), held("c", 7, 7)},
			"became(2 b acquired) missed 1, new(2 b acquired) missed 1, stopped(2 b superseded), became(3 c taken-over), new(3 c taken-over)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.tails[someElection] = Tail{Before: c.before}
				w := m.recorder(t, "w")
				for _, o := range c.states {
					w.Observe(someElection, o)
				}
				time.Sleep(time.Minute)
				m.logged(t, c.want)
			})
		})
	}
}

// A loss that one election's append brings to light is looked for in all.
func TestRecorderLossIsLookedForEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.recorder(t, "w")
		var elections []Election
		for i := range 50 {
			elections = append(elections, Election{Cluster: "default", Namespace: "prod", Lease: fmt.Sprint("l", i)})
		}
		for _, e := range elections {
			w.Observe(e, held("a", 1, 1))
		}
		time.Sleep(time.Minute)
		for _, e := range elections {
			m.lose(e, 0)
		}
		m.mu.Lock()
		reads := 0
		m.faults = func(doing string) fault {
			if doing == "tail" {
				reads++
			}
			return fault{}
		}
		m.mu.Unlock()
		w.Observe(elections[0], held("b", 5, 6))
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, e := range elections[1:] {
			if got := told(m.log(e)); got != firstTerm {
				t.Fatalf("%s: %s", e, got)
			}
		}
		if reads > 3*len(elections) {
			t.Errorf("%d reads for %d elections", reads, len(elections))
		}
	})
}

// The store was set back: what it says now counts, once a read has shown that
// it is not the replica that lags.
func TestRecorderStoreSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), &stored{}
		w := m.recorder(t, "w", readsFrom(s.read))
		w.Observe(someElection, held("a", 1, 10))
		time.Sleep(time.Minute)
		w.Observe(someElection, held("b", 90, 100))
		time.Sleep(time.Minute)
		want := firstTerm + ", stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)"
		m.logged(t, want)

		// Only this replica's view goes back: the store still says b.
		s.set(held("b", 90, 101), nil)
		w.Observe(someElection, held("a", 1, 50))
		time.Sleep(time.Minute)
		m.logged(t, want)

		s.set(held("a", 1, 51), nil)
		time.Sleep(time.Minute)
		want += ", stopped(2 b superseded), became(3 a taken-over), new(3 a taken-over)"
		m.logged(t, want)
		// From here on the new revisions count.
		w.Observe(someElection, free(60))
		time.Sleep(time.Minute)
		m.logged(t, want+", stopped(3 a released)")
	})
}

// A lock that is found absent, by a store that tells no revision for that.
func TestRecorderAbsentWithoutRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), &stored{}
		s.set(absent(0), nil)
		w := m.recorder(t, "w", readsFrom(s.read))
		w.Observe(someElection, held("a", 1, 10))
		time.Sleep(time.Minute)
		w.Observe(someElection, absent(0))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a deleted)")
		if s.reads != 0 {
			t.Errorf("%d reads for what the replica saw in order", s.reads)
		}

		// Another process begins with it.
		m2 := newMemory()
		if _, err := m2.Append(t.Context(), someElection, 0, Reconcile(someElection, Tail{}, held("a", 1, 10), witness)...); err != nil {
			t.Fatal(err)
		}
		m2.recorder(t, "v", readsFrom(s.read)).Observe(someElection, absent(0))
		time.Sleep(time.Minute)
		m2.logged(t, firstTerm+", stopped(1 a deleted)")
	})
}

// A state that no event can speak of is left out and announced; the ones around
// it are reported.
func TestRecorderUnfitState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var dropped []string
		w := m.recorder(t, "w", func(o *RecorderOptions) {
			o.Hooks.Dropped = func(_ Election, o Observed, err error) { dropped = append(dropped, err.Error()) }
		})
		w.Observe(someElection, held("a", 1, 1))
		time.Sleep(time.Minute)
		w.Observe(someElection, held("\xff", 5, 6))
		time.Sleep(time.Minute)
		w.Observe(someElection, held("\xff", 5, 7))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a superseded)")
		w.Observe(someElection, held("c", 8, 9))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a superseded), became(2 c taken-over) missed 1, new(2 c taken-over) missed 1")
		synctest.Wait()
		if len(dropped) != 1 || w.Stats().Dropped != 1 || w.Stats().Queued != 0 {
			t.Errorf("dropped %q, stats %+v", dropped, w.Stats())
		}
	})
}

// Some clients raise leaseTransitions with every renewal. That counts no terms.
func TestRecorderOddCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.recorder(t, "w")
		for i := 1; i < 30; i++ {
			w.Observe(someElection, held("a", 1, uint64(i), transitions(i)))
			time.Sleep(time.Second)
		}
		w.Observe(someElection, held("b", 40, 40, transitions(40), gap))
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)")
	})
}

// A replica that knows of a hole lets those speak first who may have seen more.
func TestRecorderHoleWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w, c := m.recorder(t, "w"), m.recorder(t, "c")
		w.Observe(someElection, held("a", 1, 1, transitions(1)))
		time.Sleep(time.Minute)
		m.setFaults(func(string) fault { return fault{err: errAway} })
		w.Observe(someElection, held("b", 5, 6, transitions(2)))
		time.Sleep(time.Minute)
		w.Observe(someElection, held("c", 8, 9, transitions(3)))
		c.Observe(someElection, held("c", 8, 9, transitions(3), own)) // its first state
		time.Sleep(100 * time.Millisecond)
		m.setFaults(nil)
		w.Recheck()
		c.Recheck()
		time.Sleep(time.Minute)
		m.logged(t, firstTerm+", stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)"+
			", stopped(2 b superseded), became(3 c taken-over), new(3 c taken-over)")
	})
}

// The same where the Lease was made anew meanwhile, so that its counter tells
// nothing: a replica that has just begun does not know whether there is a hole.
func TestRecorderNewcomerWaitsForOthers(t *testing.T) {
	const all = firstTerm + ", stopped(1 a superseded), became(2 b taken-over), new(2 b taken-over)" +
		", stopped(2 b superseded), became(3 c taken-over), new(3 c taken-over)"
	for name, tt := range map[string]struct {
		seen bool // somebody has seen what the newcomer has not
		want string
	}{
		"who have seen it": {true, all},
		"of whom none has": {false, firstTerm + ", stopped(1 a superseded), became(2 c taken-over), new(2 c taken-over)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				w := m.recorder(t, "w")
				w.Observe(someElection, held("a", 1, 1))
				time.Sleep(time.Minute)
				m.setFaults(func(string) fault { return fault{err: errAway} })
				if tt.seen {
					w.Observe(someElection, held("b", 5, 6))
					w.Observe(someElection, held("c", 8, 9, uid("u2")))
				}
				time.Sleep(time.Minute) // its pauses are long by now
				m.setFaults(nil)
				newcomer := m.recorder(t, "n", func(o *RecorderOptions) { o.Delay = -1 }) // it is the first to try
				newcomer.Observe(someElection, held("c", 8, 9, uid("u2")))
				time.Sleep(time.Minute)
				m.logged(t, tt.want)
			})
		})
	}
}

// Flush waits for the log, leaves nothing to others, and ends with its context.
func TestRecorderFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.recorder(t, "w")
		if err := w.Flush(t.Context(), someElection); err != nil {
			t.Errorf("nothing to flush: %v", err)
		}
		w.Observe(someElection, held("a", 1, 1))
		if err := w.Flush(t.Context(), someElection); err != nil {
			t.Error(err)
		}
		if n := time.Since(bubble()); n != 0 {
			t.Errorf("flush left a state to others, for %s", n)
		}
		m.logged(t, firstTerm)

		m.setFaults(func(string) fault { return fault{err: errAway} })
		w.Observe(someElection, held("a", 1, 2, ended(Released)))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := w.Flush(ctx, someElection)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("flush while the log is away: %v", err)
		}
		time.AfterFunc(10*time.Second, func() { m.setFaults(nil) })
		if err := w.Flush(t.Context(), someElection); err != nil {
			t.Error(err)
		}
		m.logged(t, firstTerm+", stopped(1 a released)")
	})
}

// FlushAll is Flush for every election, and says how many it could not flush.
func TestRecorderFlushAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.recorder(t, "w")
		elections := manyElections(20)
		see := func(revision uint64) {
			for _, e := range elections {
				o := held("a", 1, revision)
				o.Revision, o.Holder = revision, fmt.Sprint("h", revision)
				w.Observe(e, o)
			}
		}
		see(1)
		if err := w.FlushAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, e := range elections {
			if n := len(m.log(e)); n != 2 {
				t.Errorf("%s: %d events are in the log, want 2", e, n)
			}
		}
		if n := time.Since(bubble()); n != 0 {
			t.Errorf("it left states to others, for %s", n)
		}

		m.setFaults(func(string) fault { return fault{err: errAway} })
		see(2)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := w.FlushAll(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "19 other elections") {
			t.Errorf("flush while the log is away: %v", err)
		}
		if n := time.Since(bubble()); n != 3*time.Second {
			t.Errorf("it took %s, want three seconds", n)
		}
	})
}

// A recorder that ends lets no one wait, and can be told of more.
func TestRecorderStops(t *testing.T) {
	m := newMemory()
	m.setFaults(func(string) fault { return fault{wait: time.Hour} })
	r, err := NewRecorder(m, RecorderOptions{Reporter: witness})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	r.Observe(someElection, held("a", 1, 1))
	flushed := make(chan error)
	go func() { flushed <- r.Flush(t.Context(), someElection) }()
	for r.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-flushed; err == nil {
		t.Error("flush of a recorder that has ended reports success")
	}
	r.Observe(someElection, held("a", 1, 2))
	r.Tailed(someElection, Tail{Seq: 1})
	r.Recheck()
	if err := r.Run(t.Context()); err == nil {
		t.Error("a second Run reports success")
	}
}

func TestRecorderOptions(t *testing.T) {
	for _, opts := range []RecorderOptions{
		{},
		{Reporter: Reporter{Identity: "w"}},
		{Reporter: Reporter{Identity: "w", Perspective: ByLeader}},
		{Reporter: witness, QueueLimit: 3},
		{Reporter: witness, Workers: -1},
		{Reporter: witness, Timeout: -1},
		{Reporter: witness, Retry: time.Minute},
	} {
		if _, err := NewRecorder(newMemory(), opts); err == nil {
			t.Errorf("%+v was accepted", opts)
		}
	}
}

// Traces are put on the events before they are stored; the span ends with the
// append's outcome.
func TestRecorderHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var mu sync.Mutex
		var outcomes []error
		note := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, err)
		}
		var stored int
		w := m.recorder(t, "w", func(o *RecorderOptions) {
			o.Hooks.Append = func(_ Election, events []Event) func(error) {
				for i := range events {
					events[i].TraceParent = "00-00000000000000000000000000000001-0000000000000001-01"
				}
				return note
			}
			o.Hooks.Appended = func(_ Election, events []Event, seq uint64, took time.Duration) {
				stored += len(events)
				if seq != 2 || took != time.Second {
					t.Errorf("seq %d, took %s", seq, took)
				}
			}
			o.Hooks.Failed = func(_ Election, err error) { note(err) }
		})
		n := 0
		m.setFaults(func(doing string) fault {
			if doing != "append" {
				return fault{}
			}
			if n++; n == 1 {
				return fault{err: errAway}
			}
			return fault{wait: time.Second}
		})
		w.Observe(someElection, held("a", 1, 1))
		time.Sleep(time.Minute)
		synctest.Wait()
		if e := m.log(someElection)[0]; e.TraceParent == "" {
			t.Errorf("no trace context on %+v", e)
		}
		if len(outcomes) != 3 || outcomes[0] == nil || outcomes[1] == nil || outcomes[2] != nil || stored != 2 {
			t.Errorf("outcomes %v, %d stored", outcomes, stored)
		}
		if s := w.Stats(); s.Appended != 2 || s.Failed != 1 || s.Elections != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Whoever flushes and goes on finds that the hook knows of the outcome.
func TestRecorderTellsTheOutcomeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		knows := make(chan struct{})
		w := m.recorder(t, "w", func(o *RecorderOptions) {
			o.Hooks.Append = func(Election, []Event) func(error) { return func(error) { <-knows } }
		})
		w.Observe(someElection, held("a", 1, 1))
		var flushed atomic.Bool
		done := make(chan error, 1)
		go func() {
			done <- w.Flush(t.Context(), someElection)
			flushed.Store(true)
		}()
		synctest.Wait()
		if flushed.Load() {
			t.Error("flush has returned while the hook was being told")
		}
		close(knows)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// An election whose lock is gone, and whose log says so, is forgotten.
func TestRecorderForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := m.recorder(t, "w")
		for i := range 3 {
			n := uint64(10 * i)
			w.Observe(someElection, held("a", int(n), n+1))
			time.Sleep(time.Minute)
			w.Observe(someElection, absent(n+2))
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := w.Stats(); s.Elections != 0 || s.Queued != 0 {
				t.Errorf("stats %+v", s)
			}
		}
		if log := m.log(someElection); len(log) != 9 || log[8].Epoch != 3 {
			t.Errorf("log %s", told(log))
		}
	})
}

// A store that hangs while a lapse is checked holds up neither the own term nor
// other elections.
func TestRecorderHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		b := m.recorder(t, "b", readsFrom(func(ctx context.Context, _ Election) (Observed, error) {
			<-ctx.Done()
			return Observed{}, ctx.Err()
		}), func(o *RecorderOptions) { o.Workers = 1 })
		b.Observe(someElection, held("a", 1, 1))
		time.Sleep(time.Minute)
		b.Observe(someElection, held("a", 1, 2, lapsed))
		time.Sleep(4 * time.Second)
		m.logged(t, firstTerm)
		other := Election{Cluster: "default", Namespace: "prod", Lease: "other"}
		b.Observe(other, held("b", 1, 1, own))
		b.Observe(someElection, held("b", 6, 6, own))
		m.logged(t, firstTerm+", stopped(1 a expired), became(2 b taken-over), new(2 b taken-over)")
		if n := len(m.log(other)); n != 2 {
			t.Errorf("%d events of the other election", n)
		}
	})
}

// Flush does not press the store for a lapse that it does not confirm.
func TestRecorderFlushAsksAtEase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), &stored{}
		w := m.recorder(t, "w", readsFrom(s.read))
		w.Observe(someElection, held("a", 1, 1))
		time.Sleep(time.Minute)
		s.set(held("a", 1, 9), nil)
		w.Observe(someElection, held("a", 1, 1, lapsed))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := w.Flush(ctx, someElection); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush of a lapse that is none: %v", err)
		}
		if s.reads == 0 || s.reads > 10 {
			t.Errorf("%d reads", s.reads)
		}
	})
}

// A store that was set back and went on: what an observer says to be newer than
// anything is held against the log as it is when it is reported.
func TestRecorderSetBackIsNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), &stored{}
		w := m.recorder(t, "w", readsFrom(s.read))
		w.Observe(someElection, held("z", 90, 1000))
		time.Sleep(time.Minute)
		s.set(held("b", 9, 12), nil)
		w.Observe(someElection, held("a", 1, 10, confirmed))
		// Another is faster, with this state and the next.
		tail := m.tails[someElection]
		for _, o := range []Observed{held("a", 1, 10, confirmed), held("b", 9, 12)} {
			events := Reconcile(someElection, tail, o, witness)
			seq, err := m.Append(t.Context(), someElection, tail.Seq, events...)
			if err != nil {
				t.Fatal(err)
			}
			tail = Tail{Seq: seq, Last: events[len(events)-1]}
		}
		want := told(m.log(someElection))
		time.Sleep(time.Minute)
		m.logged(t, want)
	})
}
