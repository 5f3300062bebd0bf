package core

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The simulation runs several candidates against one store, with every fault
// that the rules speak of, and checks after each step that no two of them
// believe in a valid term of their own.

// knobs says how often things go wrong; each is a probability in percent.
type knobs struct {
	candidates                                    int
	loseRequest, loseAnswer, slow, watchBreak     int
	pause, foreign, remove, edit, stepDown, stand int
	stop, workReturns                             int
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

type world struct {
	rng    *rand.Rand
	knobs  knobs
	now    time.Duration
	seq    int
	queue  queue
	faulty bool

	// The store.
	exists bool
	uid    int
	rev    uint64
	rec    Record
	past   []Observation

	removed map[string]bool          // terms whose record was deleted or overwritten
	saw     map[string]time.Duration // when who was shown which term
	sent    map[string]time.Duration // when the acquire write of a term was sent

	replicas []*replica
	terms    int
	log      []string
	failure  error
}

type replica struct {
	w       *world
	id      string
	state   *State
	offset  time.Duration // of its monotonic clock
	wall    time.Duration // of its wall clock
	frozen  time.Duration // until then
	inbox   []Input
	watch   int           // generation; zero when down
	lastEvt time.Duration // keeps watch deliveries in order
	inTerm  bool
	drained bool
	term    int
	done    bool
	wake    int
	last    told
	views   int
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{at: w.now + d, seq: w.seq, do: do})
}

func (w *world) chance(percent int) bool { return w.faulty && w.rng.IntN(100) < percent }

func (w *world) some(limit time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(limit)) + 1)
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%10s ", w.now.Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

func (w *world) present() Observation {
	if !w.exists {
		return Observation{}
	}
	return Observation{Exists: true, UID: strconv.Itoa(w.uid), Revision: w.rev, Record: w.rec}
}

// put makes a new state and tells the watches.
func (w *world) put(exists bool, rec Record) {
	if exists && !w.exists {
		w.uid++
	}
	w.rev++
	w.exists, w.rec = exists, rec
	obs := w.present()
	if !exists {
		obs.Revision = w.rev // a watch names the deletion's revision
	}
	w.note("store rev=%d exists=%v holder=%q acquired=%s", w.rev, exists, rec.Holder, rec.Acquired.Format("05.000"))
	w.past = append(w.past, obs)
	for _, r := range w.replicas {
		r.notify(obs)
	}
}

func (r *replica) notify(obs Observation) {
	gen := r.watch
	if gen == 0 {
		return
	}
	delay := r.w.some(5 * time.Millisecond)
	if r.w.chance(r.w.knobs.slow) {
		delay = r.w.some(8 * time.Second)
	}
	r.lastEvt = max(r.lastEvt, r.w.now+delay)
	r.w.after(r.lastEvt-r.w.now, func() {
		if r.watch == gen {
			r.step(Watched{Obs: obs})
		}
	})
}

func (r *replica) now() Instant { return Instant(r.w.now + r.offset) }

// step feeds the candidate, as soon as its process runs.

func (r *replica) step(in Input) {
	w := r.w
	if r.frozen > w.now {
		r.inbox = append(r.inbox, in)
		return
	}
	if r.done {
		return
	}
	r.see(in)
	m := Moment{Now: r.now(), Wall: time.Unix(1_800_000_000, 0).Add(w.now + r.wall), Rand: w.rng.Float64()}
	acts := slices.Clone(r.state.Step(m, in))
	for _, a := range acts {
		r.do(a)
	}
	w.check(r)
	r.wake++
	gen := r.wake
	if at := r.state.Wake(m.Now); at != Never {
		w.after(at.Sub(m.Now), func() {
			if r.wake == gen {
				r.step(Tick{})
			}
		})
	}
}

// see notes which terms the process has been shown.
func (r *replica) see(in Input) {
	var obs Observation
	switch in := in.(type) {
	case Watched:
		obs = in.Obs
	case ReadDone:
		obs = in.Obs
	}
	key := r.id + life(obs)
	if _, ok := r.w.saw[key]; !ok {
		r.w.saw[key] = r.w.now
	}
}

// life names a record from its making to its destruction. A leader that makes
// its deleted record again begins another life of the same term.
func life(o Observation) string {
	return o.UID + "/" + o.Record.Holder + "/" + o.Record.Acquired.String()
}

// destroyed notes that somebody deletes or overwrites the record.
func (w *world) destroyed() { w.removed[life(w.present())] = true }

// freeze stops the process for a while. What reaches it meanwhile waits, in
// order.
func (r *replica) freeze(d time.Duration) {
	w := r.w
	if r.frozen > w.now {
		return
	}
	r.frozen = w.now + d
	w.note("%s frozen until %s", r.id, r.frozen)
	w.after(d, func() {
		inbox := r.inbox
		r.inbox = nil
		for _, in := range inbox {
			r.step(in)
		}
	})
}

func (r *replica) do(a Action) {
	w := r.w
	switch a := a.(type) {
	case Read:
		r.request(func() Input { return ReadDone{ID: a.ID, Obs: w.present()} }, ReadFailed{ID: a.ID})
	case Write:
		if a.Kind == Acquire {
			w.sent[r.id+a.Record.Acquired.String()] = w.now
		}
		w.note("%s sends write kind=%d base=%d", r.id, a.Kind, a.Base.Revision)
		r.request(func() Input { return r.apply(a) }, WriteFailed{ID: a.ID, Outcome: UnknownOutcome})
	case Begin:
		w.note("%s begins, acquired=%s", r.id, a.Term.Acquired.Format("05.000"))
		if r.inTerm {
			w.fail("%s began a term within a term", r.id)
		}
		w.terms++
		r.term++
		r.inTerm, r.drained = true, false
		if w.chance(w.knobs.workReturns) {
			r.workOver(w.some(30 * time.Second))
		}
	case Drain:
		if !r.inTerm || r.drained {
			w.fail("%s was told to drain without need", r.id)
		}
		r.drained = true
		r.workOver(w.some(time.Second))
	case End:
		w.note("%s ends, reason=%d", r.id, a.Reason)
		if !r.inTerm {
			w.fail("%s ended a term that it never began", r.id)
		}
		r.inTerm = false
		r.workOver(w.some(time.Second))
	case Changed:
		if k := keyOf(a.View); k == r.last {
			w.fail("%s told the same twice: %+v", r.id, k)
		} else {
			r.last = k
		}
		r.views++
	case Done:
		if r.inTerm {
			w.fail("%s is done within a term", r.id)
		}
		r.done = true
	}
}

func (r *replica) workOver(d time.Duration) {
	term := r.term
	r.w.after(d, func() {
		// A process that is frozen cannot see its work return either.
		if r.frozen > r.w.now {
			r.workOver(r.frozen - r.w.now)
		} else if r.term == term {
			r.step(WorkOver{})
		}
	})
}

// request carries a request to the store and its answer back, or loses one of
// them, in which case the requester's time-out speaks.
func (r *replica) request(serve func() Input, lost Input) {
	w := r.w
	const timeout = 5 * time.Second
	there, back := w.some(5*time.Millisecond), w.some(5*time.Millisecond)
	if w.chance(w.knobs.slow) {
		there = w.some(20 * time.Second) // may come after the time-out, and is still served
	}
	if w.chance(w.knobs.slow) {
		back = w.some(20 * time.Second)
	}
	answered := false
	answer := func(in Input) {
		if !answered {
			answered = true
			r.step(in)
		}
	}
	w.after(timeout, func() { answer(lost) })
	if w.chance(w.knobs.loseRequest) {
		return
	}
	w.after(there, func() {
		in := serve()
		if w.chance(w.knobs.loseAnswer) {
			return
		}
		w.after(back, func() { answer(in) })
	})
}

// apply is the store's side of a write.
func (r *replica) apply(a Write) Input {
	w := r.w
	p := w.present()
	if p.Exists != a.Base.Exists || p.Exists && (p.Revision != a.Base.Revision || p.UID != a.Base.UID) {
		return WriteFailed{ID: a.ID, Outcome: Conflict}
	}
	w.put(true, a.Record)
	return WriteDone{ID: a.ID, Obs: w.present()}
}

// check holds the first promise: at no moment do two processes believe in a
// valid term.
func (w *world) check(stepped *replica) {
	if !stepped.valid() {
		return
	}
	for _, r := range w.replicas {
		if r != stepped && r.valid() && !w.excused(stepped, r) && !w.excused(r, stepped) {
			w.fail("%s and %s lead at the same time", stepped.id, r.id)
		}
	}
}

// excused reports whether the younger term is one that no candidate could have
// known to be too early: the record of the older one was destroyed, and the
// younger had not seen it held by the older when it sent its write. docs/guarantees.md says so.
func (w *world) excused(younger, older *replica) bool {
	term := life(Observation{UID: older.state.term.UID, Record: Record{Holder: older.id, Acquired: older.state.term.Acquired}})
	shown, ok := w.saw[younger.id+term]
	return w.removed[term] && (!ok || shown > w.sent[younger.id+younger.state.term.Acquired.String()])
}

func (r *replica) valid() bool {
	return r.inTerm && r.state.Leading() && r.now() < r.state.ValidUntil()
}

// trouble draws one fault.
func (w *world) trouble() {
	r := w.replicas[w.rng.IntN(len(w.replicas))]
	k := w.knobs
	switch {
	case w.chance(k.watchBreak):
		r.breakWatch()
	case w.chance(k.pause):
		r.freeze(w.some(25 * time.Second))
	case w.chance(k.foreign):
		w.note("foreign writer")
		w.destroyed()
		rec := Record{Holder: "foreign", Duration: 15 * time.Second, Acquired: time.Unix(int64(w.rev), 0).UTC(), HasTransitions: true}
		w.put(true, rec)
	case w.chance(k.remove) && w.exists:
		w.destroyed()
		w.put(false, Record{})
	case w.chance(k.edit) && w.exists:
		rec := w.rec
		rec.Preferred = "somebody"
		w.put(true, rec)
	case w.chance(k.stepDown):
		r.step(EndTerm{Reason: StepDown})
	case w.chance(k.stand):
		r.step(Stand{Yes: false})
		w.after(w.some(10*time.Second), func() { r.step(Stand{Yes: true}) })
	case w.chance(k.stop) && r != w.replicas[0]:
		r.step(Stop{})
	}
}

func (r *replica) breakWatch() {
	r.watch = 0
	r.step(WatchDown{})
	r.w.after(r.w.some(12*time.Second), r.openWatch)
}

func (r *replica) openWatch() {
	w := r.w
	w.seq++
	r.watch = w.seq
	r.step(WatchUp{})
	if p := w.present(); p.Exists {
		r.notify(p)
	}
}

func (w *world) run(until time.Duration) {
	for w.queue.Len() > 0 && w.queue[0].at <= until && w.failure == nil {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
		if w.seq > 2_000_000 {
			w.fail("the simulation does not come to rest")
		}
	}
	w.now = until
}

// simulate plays one history and returns it with what it proved wrong.
func simulate(seed uint64, k knobs) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), knobs: k, faulty: true, removed: map[string]bool{}, saw: map[string]time.Duration{}, sent: map[string]time.Duration{}}
	cfg := Config{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, DrainTimeout: 5 * time.Second}
	for i := range k.candidates {
		r := &replica{
			w: w, id: fmt.Sprintf("candidate-%d", i),
			offset: w.some(1000 * time.Hour), wall: w.some(time.Hour) - 30*time.Minute,
		}
		cfg.Identity = r.id
		r.state = New(cfg)
		w.replicas = append(w.replicas, r)
		w.after(w.some(time.Second), func() { r.step(Tick{}); r.openWatch() })
	}
	const faults, quiet = 4 * time.Minute, 3 * time.Minute
	for at := time.Second; at < faults; at += w.some(4 * time.Second) {
		w.after(at, w.trouble)
	}
	w.run(faults)
	w.faulty = false
	w.run(faults + quiet)
	leaders := 0
	for _, r := range w.replicas {
		if r.valid() {
			leaders++
		}
	}
	if leaders != 1 {
		for _, r := range w.replicas {
			st := *r.state
			w.note("%s now=%d state=%+v writing=%+v", r.id, r.now(), st, st.writing)
		}
		w.fail("%d leaders three minutes after the last fault", leaders)
	}
	return w
}

func drawKnobs(t *rapid.T) knobs {
	p := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	return knobs{
		candidates:  rapid.IntRange(1, 5).Draw(t, "candidates"),
		loseRequest: p("loseRequest", 30), loseAnswer: p("loseAnswer", 30), slow: p("slow", 30),
		watchBreak: p("watchBreak", 50), pause: p("pause", 30), foreign: p("foreign", 10),
		remove: p("remove", 20), edit: p("edit", 20), stepDown: p("stepDown", 40),
		stand: p("stand", 20), stop: p("stop", 10), workReturns: p("workReturns", 20),
	}
}

// TestNoTwoValidTerms holds rules S1 to S8: never two valid terms at once,
// never a stop without a start, and nobody waits for ever once faults end.
func TestNoTwoValidTerms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawKnobs(t)
		seed := rapid.Uint64().Draw(t, "seed")
		if w := simulate(seed, k); w.failure != nil {
			t.Fatalf("%v\n%s", w.failure, tail(w.log, 60))
		}
	})
}

// TestNoTwoValidTermsLong plays as many histories as LEADERBRIDGE_HISTORIES
// says, and checks that they were eventful enough to have proved something.
func TestNoTwoValidTermsLong(t *testing.T) {
	histories := 300
	if v, err := strconv.Atoi(os.Getenv("LEADERBRIDGE_HISTORIES")); err == nil {
		histories = v
	}
	terms := 0
	for i := range histories {
		seed := uint64(i) + 1
		rng := rand.New(rand.NewPCG(seed, 2))
		k := knobs{
			candidates: 1 + rng.IntN(5), loseRequest: rng.IntN(30), loseAnswer: rng.IntN(30), slow: rng.IntN(30),
			watchBreak: rng.IntN(50), pause: rng.IntN(30), foreign: rng.IntN(10), remove: rng.IntN(20), edit: rng.IntN(20),
			stepDown: rng.IntN(40), stand: rng.IntN(20), stop: rng.IntN(10), workReturns: rng.IntN(20),
		}
		w := simulate(seed, k)
		if w.failure != nil {
			t.Fatalf("seed %d, %+v: %v\n%s", seed, k, w.failure, tail(w.log, 60))
		}
		terms += w.terms
	}
	if terms < 2*histories {
		t.Errorf("only %d terms in %d histories: too quiet to prove anything", terms, histories)
	}
	t.Logf("%d histories, %d terms", histories, terms)
}

func tail(lines []string, n int) string {
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	out := ""
	for _, l := range lines {
		out += l + "\n"
	}
	return out
}
