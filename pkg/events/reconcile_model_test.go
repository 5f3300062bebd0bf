package events

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The model: a lock with its true history, replicas that each see part of the
// history at their own speed, and a log that takes an append only if it has
// not grown since the tail it was based on.

// seen is one state of the true history and who can see it: everybody, or only
// the replica whose own term has ended.
type seen struct {
	Observed
	only string
}

// lock makes a true history.
type lock struct {
	history []seen
	rev     uint64
	now     int
	epochs  bool // the holders write acquireTimes
	uids    int
	present Observed
	// alive tells that the holder in the record still renews.
	alive bool
	terms []string // the true terms, in order
	born  []string // the uid that each began under
}

func newLock(acquireTimes bool) *lock {
	return &lock{epochs: acquireTimes, present: Observed{Status: Absent, At: at(0)}}
}

func (l *lock) write(o Observed) {
	l.rev++
	o.Revision = l.rev
	o.At = at(l.now)
	l.present = o
	l.history = append(l.history, seen{Observed: o})
}

// hold makes the record name the holder, for a new term.
func (l *lock) hold(holder string) {
	o := Observed{
		Status: Held, UID: l.present.UID, Holder: holder,
		LeaseDurationSeconds: new(15), LeaseTransitions: new(0), RenewTime: at(l.now),
	}
	if l.epochs {
		o.AcquireTime = at(l.now).Add(time.Microsecond)
	}
	if t := l.present.LeaseTransitions; t != nil && l.present.Status != Absent {
		*o.LeaseTransitions = *t + 1
	}
	if l.present.Status == Absent {
		l.uids++
		o.UID = fmt.Sprintf("u%d", l.uids)
	}
	l.alive = true
	l.write(o)
	l.terms = append(l.terms, termOf(o.Holder, o.AcquireTime))
	l.born = append(l.born, o.UID)
}

func termOf(holder string, acquired time.Time) string {
	if acquired.IsZero() {
		return holder
	}
	return fmt.Sprintf("%s@%d", holder, acquired.Sub(someEpoch)/time.Second)
}

// operations are what can happen to a lock. Each reports whether it could.
var operations = []struct {
	name string
	do   func(*lock) bool
}{
	{"a", func(l *lock) bool { return l.take("a") }},
	{"b", func(l *lock) bool { return l.take("b") }},
	{"overwrite", func(l *lock) bool {
		if l.present.Status != Held {
			return false
		}
		l.hold("x")
		return true
	}},
	{"release", func(l *lock) bool {
		if l.present.Status != Held {
			return false
		}
		o := l.present
		o.Status, o.Holder, o.AcquireTime, o.RenewTime = Free, "", time.Time{}, at(l.now)
		l.write(o)
		return true
	}},
	{"lapse", func(l *lock) bool {
		if l.present.Status != Held {
			return false
		}
		l.present.Status, l.present.At = Lapsed, at(l.now)
		l.history = append(l.history, seen{Observed: l.present})
		return true
	}},
	{"renew", func(l *lock) bool {
		if l.present.Status != Held && l.present.Status != Lapsed || !l.alive {
			return false
		}
		o := l.present
		o.Status, o.RenewTime = Held, at(l.now)
		l.write(o)
		return true
	}},
	{"delete", func(l *lock) bool {
		if l.present.Status == Absent {
			return false
		}
		o := l.present
		o.Status = Absent
		l.write(o)
		return true
	}},
	{"recreate", func(l *lock) bool {
		if l.present.Status != Absent || l.present.Holder == "" || !l.alive {
			return false
		}
		o := l.present
		l.uids++
		o.Status, o.UID, o.LeaseTransitions = Held, fmt.Sprintf("u%d", l.uids), new(0)
		l.write(o)
		return true
	}},
	{"end", func(l *lock) bool {
		if l.present.Status != Held || l.present.Holder == "x" || !l.alive {
			return false
		}
		o := l.present
		o.Status, o.Own, o.Reason, o.At = Ended, true, RenewDeadline, at(l.now)
		l.alive = false
		l.history = append(l.history, seen{Observed: o, only: o.Holder})
		return true
	}},
}

func (l *lock) take(holder string) bool {
	if l.present.Status == Held {
		return false
	}
	l.hold(holder)
	return true
}

func (l *lock) do(op int) bool {
	l.now += 10
	return operations[op].do(l)
}

// view is what the replica of that name sees of the history when it misses
// nothing: its own terms as its own, and nobody else's word.
func (l *lock) view(replica string) []Observed {
	var states []Observed
	var over map[string]bool
	for _, s := range l.history {
		o := s.Observed
		if s.only != "" && s.only != replica {
			continue
		}
		if s.only != "" {
			if over == nil {
				over = map[string]bool{}
			}
			over[termOf(o.Holder, o.AcquireTime)] = true
		}
		o.Own = o.Status == Ended || o.Status == Held && o.Holder == replica && !over[termOf(o.Holder, o.AcquireTime)]
		states = append(states, o)
	}
	return states
}

// substance is what of an event does not depend on who reported it.
func substance(log []Event) string {
	var b strings.Builder
	for _, e := range log {
		fmt.Fprintf(&b, "%s %d %q<%q %s missed=%d %s %s\n", e.Transition, e.Epoch, e.Leader, e.PreviousLeader, e.Reason, e.Missed, e.UID, termOf("", e.AcquireTime))
	}
	return b.String()
}

// illegal tells what is wrong with a log, taken by itself and against the true
// history; empty when nothing is.
func (l *lock) illegal(log []Event) string {
	var last Event
	ids := map[string]bool{}
	term := -1
	for i, e := range log {
		id := fmt.Sprintf("%s.%d.%s", e.UID, e.Epoch, e.Transition)
		if ids[id] {
			return fmt.Sprintf("event %d: id %s twice", i, id)
		}
		ids[id] = true
		if e.UID == "" || e.Time.IsZero() || e.Reporter == "" || e.Perspective == "" || e.Election != someElection {
			return fmt.Sprintf("event %d is incomplete", i)
		}
		switch e.Transition {
		case BecameLeader:
			if last.Transition != "" && last.Transition != StoppedLeading {
				return fmt.Sprintf("event %d: became after %s", i, last.Transition)
			}
			if e.Epoch != last.Epoch+1 {
				return fmt.Sprintf("event %d: epoch %d after %d", i, e.Epoch, last.Epoch)
			}
			name, from := termOf(e.Leader, e.AcquireTime), term+1
			if e.Reason == Resumed || e.AcquireTime.IsZero() {
				from = max(term, 0)
			}
			for term = from; term < len(l.terms) && (term < 0 || l.terms[term] != name); {
				term++
			}
			if term >= len(l.terms) {
				return fmt.Sprintf("event %d: term %s was not, or not then: %v", i, name, l.terms)
			}
		case NewLeader:
			if last.Transition != BecameLeader || e.Epoch != last.Epoch || e.Leader != last.Leader {
				return fmt.Sprintf("event %d: new-leader after %s", i, last.Transition)
			}
		case StoppedLeading:
			if last.Transition != NewLeader || e.Epoch != last.Epoch || e.PreviousLeader != last.Leader {
				return fmt.Sprintf("event %d: stopped after %s", i, last.Transition)
			}
		default:
			return fmt.Sprintf("event %d: unknown transition", i)
		}
		last = e
	}
	return ""
}

// unannounced tells where terms are missing from the log although the lock's
// counter shows that they have been; empty when each hole is announced.
func (l *lock) unannounced(log []Event) string {
	term, announced := -1, uint64(0)
	for i, e := range log {
		if e.Transition == NewLeader {
			continue
		}
		announced += e.Missed
		if e.Transition != BecameLeader {
			continue
		}
		now := max(term, 0)
		for l.terms[now] != termOf(e.Leader, e.AcquireTime) {
			now++
		}
		counted := term >= 0 && now > term
		for _, uid := range l.born[max(term, 0) : now+1] {
			counted = counted && uid == e.UID
		}
		if want := uint64(now - term - 1); counted && announced != want {
			return fmt.Sprintf("event %d: %d missing and %d announced", i, want, announced)
		}
		term, announced = now, 0
	}
	return ""
}

// untrue tells how the log's last word contradicts the lock's final state, once
// the named replicas have seen it.
func (l *lock) untrue(log []Event, replicas []string) string {
	if l.present.Status == Held && !l.alive && !slices.Contains(replicas, l.present.Holder) {
		return "" // its own end is only the leader's to tell
	}
	leader := ""
	if n := len(log); n > 0 {
		leader = log[n-1].Leader
	}
	want := ""
	if l.present.Status == Held && l.alive {
		want = l.present.Holder
	}
	if leader != want {
		return fmt.Sprintf("the log says %q leads, the lock says %q", leader, want)
	}
	return ""
}

// replica is one reporter in the model.
type replica struct {
	me     Reporter
	states []Observed
	next   int
	gap    bool
	// based is the length of the log that the pending events are based on, or
	// -1 when none are pending.
	based   int
	pending []Event
}

func newReplica(name string, states []Observed) *replica {
	return &replica{me: Reporter{Identity: name, Perspective: ByWitness}, states: states, based: -1}
}

func tailOf(log []Event) Tail {
	if len(log) == 0 {
		return Tail{}
	}
	return Tail{Seq: uint64(len(log)), Last: log[len(log)-1]}
}

func (r *replica) done() bool { return r.next >= len(r.states) }

// read is the first half of a replica's move: it takes the tail and reconciles.
// Without events to append the state is done with.
func (r *replica) read(log []Event) {
	var gap bool
	r.pending, gap = reconcile(someElection, tailOf(log), r.states[r.next], r.me, r.gap)
	r.based = len(log)
	if len(r.pending) == 0 {
		r.based, r.gap = -1, gap
		r.next++
	}
}

// append is the second half: the log takes the events, or only the first n of
// them when the writer crashes half-way, unless it has grown.
func (r *replica) append(log []Event, n int) []Event {
	if r.based == len(log) {
		log = append(slices.Clip(log), r.pending[:min(n, len(r.pending))]...)
	}
	r.based, r.pending = -1, nil
	return log
}

// explorer walks through all interleavings of the replicas' moves.
type explorer struct {
	t       *testing.T
	lock    *lock
	history string
	visited map[string]bool
	cases   int
	// same is the log that every interleaving must end with; empty to find it.
	same  string
	check bool
	names []string
}

// key tells apart the states of the walk. A log's events of one history are
// told apart by what is in the key; who wrote them matters by perspective only.
func (x *explorer) key(replicas []replica, log []Event) string {
	b := make([]byte, 0, 128)
	for _, r := range replicas {
		b = append(b, byte(r.next), byte(r.based+1))
		if r.gap {
			b = append(b, 'g')
		}
	}
	for _, e := range log {
		b = append(b, '|', e.Transition[0], byte(e.Epoch), byte(e.Missed), e.Perspective[0], byte(e.Revision))
		b = append(b, e.Reason...)
	}
	return string(b)
}

func (x *explorer) walk(replicas []replica, log []Event) {
	key := x.key(replicas, log)
	if x.visited[key] {
		return
	}
	x.visited[key] = true
	x.cases++
	over := true
	for i := range replicas {
		if replicas[i].done() {
			continue
		}
		over = false
		// An append that is refused changes nothing, so that nothing is left
		// out by reading and appending in one move.
		r := replicas[i]
		r.read(log)
		for n := range max(len(r.pending), 1) {
			next := slices.Clone(replicas)
			next[i] = r
			grown := log
			if r.based >= 0 {
				grown = next[i].append(log, n+1)
			}
			x.walk(next, grown)
		}
	}
	if !over {
		return
	}
	if problem := x.lock.illegal(log); problem != "" {
		x.t.Fatalf("%s: %s\n%s", x.history, problem, substance(log))
	}
	if problem := x.lock.untrue(log, x.names); problem != "" {
		x.t.Fatalf("%s: %s\n%s", x.history, problem, substance(log))
	}
	if x.check {
		if s := substance(log); x.same == "" {
			x.same = s
		} else if s != x.same {
			x.t.Fatalf("%s: the log depends on who wrote it\n%s\nor\n%s", x.history, x.same, s)
		}
	}
}

// histories calls do with every history of up to n operations.
func histories(n int, acquireTimes bool, do func(name string, l *lock)) {
	var ops []int
	var grow func()
	grow = func() {
		if len(ops) == n {
			return
		}
		for op := range operations {
			ops = append(ops, op)
			l := newLock(acquireTimes)
			ok := true
			var names []string
			for _, op := range ops {
				ok = ok && l.do(op)
				names = append(names, operations[op].name)
			}
			if ok {
				do(strings.Join(names, " "), l)
				grow()
			}
			ops = ops[:len(ops)-1]
		}
	}
	grow()
}

// Five take a minute or two, six hours.
var historyLength = flag.Int("histories", 4, "length of the histories that TestReconcileExhaustively walks through")

// Every short history of a lock, seen in full by a leader-to-be, another and a
// bystander, in every interleaving of their reads and appends, with a crash
// after any event of any append: the log is legal, says nothing that was not,
// ends in the truth, and does not depend on who wrote it.
func TestReconcileExhaustively(t *testing.T) {
	length := *historyLength
	if testing.Short() {
		length = min(length, 3)
	}
	var cases, locks int
	for _, acquireTimes := range []bool{true, false} {
		histories(length, acquireTimes, func(name string, l *lock) {
			for _, names := range [][]string{{"w"}, {"a", "b"}, {"a", "w"}} {
				x := explorer{t: t, lock: l, history: fmt.Sprint(name, " seen by ", names), names: names, visited: map[string]bool{}}
				// The leader's own word about its end is not everybody's.
				x.check = !strings.Contains(name, "end")
				var replicas []replica
				for _, n := range names {
					replicas = append(replicas, *newReplica(n, l.view(n)))
				}
				x.walk(replicas, nil)
				cases += x.cases
				locks++
			}
		})
	}
	t.Logf("%d histories, %d states", locks, cases)
}

// Long random histories, seen in part: replicas miss states, restart, lose
// races and crash half-way. The log is legal and ends in the truth; and what is
// missing in it is announced.
func TestReconcileSeenInPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLock(true)
		for range rapid.IntRange(1, 30).Draw(t, "length") {
			l.do(rapid.IntRange(0, len(operations)-1).Draw(t, "operation"))
		}
		var replicas []*replica
		names := []string{"a", "b", "w", "v"}[:rapid.IntRange(1, 4).Draw(t, "replicas")]
		for i, name := range names {
			var states []Observed
			gap := true
			full := l.view(name)
			for j, o := range full {
				// A process does not miss its own acts, nobody the last state.
				if j < len(full)-1 && !o.Own && rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("misses %d", i)) == 0 {
					gap = true
					continue
				}
				o.Gap, gap = gap, false
				states = append(states, o)
			}
			replicas = append(replicas, newReplica(name, states))
		}
		var log []Event
		for {
			busy := slices.DeleteFunc(slices.Clone(replicas), (*replica).done)
			if len(busy) == 0 {
				break
			}
			r := busy[rapid.IntRange(0, len(busy)-1).Draw(t, "replica")]
			if r.based < 0 {
				r.read(log)
			} else {
				log = r.append(log, rapid.IntRange(1, 6).Draw(t, "events until the crash"))
			}
		}
		if problem := l.illegal(log); problem != "" {
			t.Fatalf("%s\n%s", problem, substance(log))
		}
		if problem := l.untrue(log, names); problem != "" {
			t.Fatalf("%s\n%s", problem, substance(log))
		}
		if problem := l.unannounced(log); problem != "" {
			t.Fatalf("%s\n%s", problem, substance(log))
		}
	})
}

// Whatever is in the tail and in the state: the events follow from one another,
// numbers rise, and saying it once is enough.
func TestReconcileAnything(t *testing.T) {
	holders := rapid.SampledFrom([]string{"", "a", "b"})
	times := rapid.SampledFrom([]time.Time{{}, at(1), at(2)})
	number := rapid.SampledFrom([]uint64{0, 1, 2, 3, MaxEpoch - 1, MaxEpoch, MaxEpoch + 1, 1 << 63})
	optional := func(t *rapid.T, name string) *int {
		if n := rapid.IntRange(-2, 3).Draw(t, name); n > -2 {
			return &n
		}
		return nil
	}
	rapid.Check(t, func(t *rapid.T) {
		tail := Tail{Seq: 1, Last: Event{
			Election:   someElection,
			Transition: rapid.SampledFrom([]Transition{"", BecameLeader, NewLeader, StoppedLeading, "other"}).Draw(t, "transition"),
			UID:        rapid.SampledFrom([]string{"", "u1", "u2"}).Draw(t, "tail's uid"),
			Epoch:      min(number.Draw(t, "epoch"), MaxEpoch), Time: times.Draw(t, "time"),
			Leader: holders.Draw(t, "leader"), PreviousLeader: holders.Draw(t, "previous"),
			Reason:           rapid.SampledFrom([]Reason{"", Released, Expired, Superseded, Acquired}).Draw(t, "reason"),
			LeaseTransitions: optional(t, "tail's transitions"), AcquireTime: times.Draw(t, "tail's acquired"),
			Perspective: rapid.SampledFrom([]Perspective{"", ByLeader, ByWitness}).Draw(t, "perspective"),
			Revision:    number.Draw(t, "tail's revision"),
		}}
		o := Observed{
			Status: Status(rapid.IntRange(-1, 5).Draw(t, "status")), UID: "u1", Revision: number.Draw(t, "revision"),
			Holder: holders.Draw(t, "holder"), At: at(5), Own: rapid.Bool().Draw(t, "own"), Gap: rapid.Bool().Draw(t, "gap"),
			Reason: rapid.SampledFrom([]Reason{"", Released}).Draw(t, "own reason"),
			Missed: number.Draw(t, "missed"), Confirmed: rapid.Bool().Draw(t, "confirmed"),
			AcquireTime: times.Draw(t, "acquired"), RenewTime: times.Draw(t, "renewed"),
			LeaseTransitions: optional(t, "transitions"), LeaseDurationSeconds: optional(t, "duration"),
			EpochFloor: number.Draw(t, "floor"), EpochIsOwn: rapid.Bool().Draw(t, "floor is own"),
		}
		events, _ := reconcile(someElection, tail, o, witness, rapid.Bool().Draw(t, "lost touch"))
		last := tail.Last
		for i, e := range events {
			switch {
			case e.Transition == BecameLeader && (e.Epoch <= last.Epoch || e.Epoch > MaxEpoch || last.Transition != StoppedLeading && last.Leader != "" && last.Transition != ""),
				e.Transition == NewLeader && (last.Transition != BecameLeader || e.Epoch != last.Epoch || e.Leader != last.Leader),
				e.Transition == StoppedLeading && (last.Leader == "" || e.Epoch != last.Epoch || e.PreviousLeader != last.Leader || e.Leader != ""):
				t.Fatalf("event %d: %+v after %+v", i, e, last)
			}
			last = e
		}
		if len(events) == 0 {
			return
		}
		if again := Reconcile(someElection, Tail{Seq: 2, Last: last}, o, witness); len(again) > 0 {
			t.Fatalf("%s\nand then\n%s", told(events), told(again))
		}
	})
}
