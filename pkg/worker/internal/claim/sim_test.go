package claim_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/internal/ledger"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/claim"
)

// The durations of the simulated election.
const (
	leaseTime  = 15 * time.Second
	renewLimit = 10 * time.Second
	renewEvery = 2 * time.Second
	drainTime  = 10 * time.Second
)

// world is a discrete simulation of leaders that follow one another, workers
// for one role, and the network between them. Every process has a clock of its
// own, which is off and runs at another speed. It has true time, which none of
// them knows, and the rules by which a Lease changes hands.
type world struct {
	fail   func(format string, args ...any)
	rnd    *rand.Rand
	now    time.Duration // true time
	queue  queue
	order  int
	calm   bool // no more faults
	faults faults

	leaders []*leader
	workers []*worker
	started int
	epochs  []uint64 // of all starts, in true time
	lapses  int      // hand-overs without a clean end
}

// faults are chances, in percent.
type faults struct {
	lose, delay, pause, unclean, crash int
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + d, w.order, do})
}

func (w *world) chance(percent int) bool { return !w.calm && w.rnd.IntN(100) < percent }

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rnd.Int64N(int64(to-from)+1))
}

// run lets true time pass.
func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
		w.check()
	}
	w.now = until
}

// check is what it is all about.
func (w *world) check() {
	var holder *worker
	for _, k := range w.workers {
		epoch, holds := k.claim.Holds(k.clock())
		if !holds {
			continue
		}
		if holder != nil {
			w.fail("at %v two workers hold the role: %s and %s (epoch %d)", w.now, holder.name, k.name, epoch)
		}
		holder = k
	}
}

// process is what can be paused, and has a clock.
type process struct {
	w       *world
	name    string
	offset  time.Duration
	rate    float64
	paused  bool
	pending []func()
	dead    bool
}

func (w *world) process(name string) process {
	return process{w: w, name: name, offset: w.between(time.Hour, 1000*time.Hour), rate: 0.996 + 0.008*w.rnd.Float64()}
}

func (p *process) clock() boottime.Instant {
	return boottime.Instant(float64(p.w.now)*p.rate) + boottime.Instant(p.offset)
}

// does lets the process do something, later if it is paused.
func (p *process) does(do func()) {
	switch {
	case p.dead:
	case p.paused:
		p.pending = append(p.pending, do)
	default:
		do()
	}
}

func (p *process) pause(d time.Duration) {
	if p.paused || p.dead {
		return
	}
	p.paused = true
	p.w.after(d, func() {
		p.paused = false
		pending := p.pending
		p.pending = nil
		for _, do := range pending {
			p.does(do)
		}
	})
}

// send carries a message.
func (w *world) send(to *process, do func()) {
	if w.chance(w.faults.lose) {
		return
	}
	d := w.between(100*time.Microsecond, 2*time.Millisecond)
	if w.chance(w.faults.delay) {
		d = w.between(0, 12*time.Second)
	}
	w.after(d, func() { to.does(do) })
}

// leader is one term, in a process of its own.
type leader struct {
	process
	epoch     uint64
	book      *ledger.Ledger
	deadline  boottime.Instant
	lastRenew time.Duration // true time
	deaf      bool          // cannot renew any more
	draining  bool
	silent    bool // its office is closed
}

func (w *world) lead(clean bool) {
	l := &leader{process: w.process(fmt.Sprintf("leader-%d", len(w.leaders)+1)), epoch: uint64(len(w.leaders)) + 1}
	var notBefore boottime.Instant
	if !clean {
		notBefore = l.clock().Add(leaseTime)
	}
	l.book = ledger.New(notBefore)
	w.leaders = append(w.leaders, l)
	l.renew()
	for _, k := range w.workers {
		w.send(&k.process, func() { k.step(claim.Free{All: true}) })
		w.send(&k.process, func() { k.step(claim.Event{Epoch: l.epoch}) })
	}
	if w.chance(20 + w.faults.pause) {
		w.after(w.between(0, 20*time.Second), func() { l.pause(w.between(0, 30*time.Second)) })
	}
	if !w.calm {
		w.after(w.between(0, 40*time.Second), l.leave)
	}
}

func (l *leader) renew() {
	if l.deaf || l.silent {
		return
	}
	if l.deadline != 0 && l.clock() >= l.deadline {
		return // the term is over, its successor comes by itself
	}
	l.deadline, l.lastRenew = l.clock().Add(renewLimit), l.w.now
	l.w.after(renewEvery, func() { l.does(l.renew) })
}

// leave ends the term in one of the ways that there are.
func (l *leader) leave() {
	if l.w.calm || l != l.w.leaders[len(l.w.leaders)-1] {
		return
	}
	switch {
	case l.w.chance(l.w.faults.unclean):
		// The Lease is overwritten under it. It may notice late.
		l.w.lapses++
		l.deaf = true
		l.w.lead(false)
	case l.w.chance(l.w.faults.crash) || l.paused:
		l.w.lapses++
		l.deaf = true
		if l.w.chance(50) {
			l.dead = true
		}
		lapse := l.lastRenew + leaseTime*1005/1000 - l.w.now
		l.w.after(max(0, lapse)+l.w.between(0, time.Second), func() { l.w.lead(true) })
	default:
		l.does(func() {
			l.draining = true
			l.book.Drain(l.clock().Add(drainTime))
			l.drain()
		})
	}
}

// drain waits for the workers, then lets the successor begin.
func (l *leader) drain() {
	if l.clock() >= l.deadline {
		// It was paused, and lost the term: the successor waits for the lapse.
		lapse := l.lastRenew + leaseTime*1005/1000 - l.w.now
		l.w.after(max(0, lapse), func() { l.w.lead(true) })
		return
	}
	if l.book.Settled() <= l.clock() {
		l.silent = true
		for _, k := range l.w.workers {
			l.w.send(&k.process, func() { k.step(claim.Event{Epoch: l.epoch, Ended: true}) })
		}
		l.w.after(l.w.between(0, 10*time.Millisecond), func() { l.w.lead(true) })
		return
	}
	for _, k := range l.w.workers {
		l.w.send(&k.process, func() { k.step(claim.Drain{Epoch: l.epoch}) })
	}
	l.w.after(50*time.Millisecond, func() { l.does(l.drain) })
}

func (l *leader) answer(k *worker, r events.GrantRequest) {
	if l.silent || l.clock() >= l.deadline {
		return
	}
	now := l.clock()
	until, no := l.book.Grant(now, l.deadline, r)
	if no != nil {
		if no.Reason == events.RefusedStale {
			return
		}
		l.w.send(&k.process, func() {
			k.step(claim.Refused{Seq: r.Seq, Epoch: l.epoch, RetryAfter: no.RetryAfter, Draining: no.Reason == events.RefusedDraining})
		})
		return
	}
	if until > l.deadline {
		l.w.fail("a grant until %v, the term ends at %v", until, l.deadline)
	}
	valid := until.Sub(now)
	valid -= valid / 100
	if l.chanceToNod() {
		l.pause(l.w.between(0, 15*time.Second)) // between the answer's making and its sending
	}
	l.does(func() {
		l.w.send(&k.process, func() {
			k.step(claim.Granted{Seq: r.Seq, Epoch: l.epoch, Leader: l.name, Valid: valid})
		})
	})
}

func (l *leader) chanceToNod() bool { return l.w.chance(l.w.faults.pause / 4) }

func (l *leader) takeBack(k *worker, r events.GrantRequest) {
	freed := l.book.Return(l.clock(), r)
	l.w.send(&k.process, func() { k.step(claim.Returned{Seq: r.Seq}) })
	if freed && !l.draining {
		for _, k := range l.w.workers {
			l.w.send(&k.process, func() { k.step(claim.Free{}) })
		}
	}
}

// worker is one process that wants the role.
type worker struct {
	process
	claim  *claim.State
	run    int // number of the handler's run; zero when none runs
	wakeAt boottime.Instant
}

func (w *world) hire() {
	w.started++
	k := &worker{process: w.process(fmt.Sprintf("worker-%d", w.started)), claim: claim.New()}
	w.workers = append(w.workers, k)
	k.step(claim.Feed{Current: true})
}

func (k *worker) request(seq uint64) events.GrantRequest {
	return events.GrantRequest{Role: "sync", Worker: "same-name", Instance: k.name, Seq: seq}
}

func (k *worker) step(in claim.Input) {
	actions := slices.Clone(k.claim.Step(claim.Moment{Now: k.clock(), Rand: k.w.rnd.Float64()}, in))
	for _, a := range actions {
		k.do(a)
	}
	k.sleep()
}

func (k *worker) sleep() {
	at := k.claim.Wake()
	if at == claim.Never || at == k.wakeAt {
		return
	}
	k.wakeAt = at
	d := max(0, time.Duration(float64(at.Sub(k.clock()))/k.rate)+time.Microsecond)
	k.w.after(d, func() {
		k.does(func() {
			if k.wakeAt == at {
				k.wakeAt = 0
				k.step(claim.Tick{})
			}
		})
	})
}

func (k *worker) do(a claim.Action) {
	w := k.w
	switch a := a.(type) {
	case claim.Ask:
		for _, l := range w.leaders {
			w.send(&l.process, func() { l.answer(k, k.request(a.Seq)) })
		}
	case claim.Return:
		for _, l := range w.leaders {
			w.send(&l.process, func() { l.takeBack(k, k.request(a.Seq)) })
		}
	case claim.Start:
		if k.run != 0 {
			w.fail("%s: a second handler beside the first", k.name)
		}
		if n := len(w.epochs); n > 0 && w.epochs[n-1] > a.Epoch {
			w.fail("%s starts in epoch %d after one of epoch %d", k.name, a.Epoch, w.epochs[n-1])
		}
		w.epochs = append(w.epochs, a.Epoch)
		k.run = len(w.epochs)
		if w.chance(20) {
			k.endAfter(w.between(0, 20*time.Second), claim.HandlerEnded{CoolDown: w.between(0, 5*time.Second)})
		}
	case claim.Cancel:
		k.endAfter(w.between(0, 2*time.Second), claim.HandlerEnded{})
	case claim.Finish:
		k.dead = true
		w.after(0, func() {
			w.workers = slices.DeleteFunc(w.workers, func(o *worker) bool { return o == k })
			w.hire()
		})
	}
}

func (k *worker) endAfter(d time.Duration, in claim.HandlerEnded) {
	run := k.run
	k.w.after(d, func() {
		k.does(func() {
			if k.run == run {
				k.run = 0
				k.step(in)
			}
		})
	})
}

// mischief disturbs a worker now and then.
func (w *world) mischief() {
	if w.calm {
		return
	}
	k := w.workers[w.rnd.IntN(len(w.workers))]
	switch {
	case w.chance(w.faults.pause):
		k.pause(w.between(0, 25*time.Second))
	case w.chance(5):
		k.does(func() { k.step(claim.Stop{}) })
	}
	w.after(w.between(0, 3*time.Second), w.mischief)
}

func simulate(fail func(string, ...any), seed uint64, f faults, workers int, minutes int) *world {
	w := &world{fail: fail, rnd: rand.New(rand.NewPCG(seed, 1)), faults: f}
	for range workers {
		w.hire()
	}
	w.after(0, func() { w.lead(true) })
	w.after(time.Second, w.mischief)
	w.run(time.Duration(minutes) * time.Minute)
	w.calm = true
	// A leader whose end was under way is followed by one that stays.
	w.run(w.now + 2*time.Minute)
	if last := w.leaders[len(w.leaders)-1]; last.deaf || last.dead || last.draining || last.clock() >= last.deadline {
		w.lead(false)
		w.run(w.now + 2*time.Minute)
	}
	n := 0
	for _, k := range w.workers {
		if epoch, holds := k.claim.Holds(k.clock()); holds && epoch == w.leaders[len(w.leaders)-1].epoch {
			n++
		}
	}
	if n != 1 {
		w.fail("two minutes after the last fault %d workers work", n)
	}
	return w
}

// At no moment do two workers of a role hold an unexpired grant, whatever
// happens to leaders, workers and messages; epochs never fall; no grant exceeds
// the term; and when it is over, one works.
func TestOneWorkerAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.IntRange(0, 30)
		f := faults{
			lose: percent.Draw(t, "lose"), delay: percent.Draw(t, "delay"), pause: percent.Draw(t, "pause"),
			unclean: percent.Draw(t, "unclean"), crash: percent.Draw(t, "crash"),
		}
		simulate(t.Fatalf, rapid.Uint64().Draw(t, "seed"), f, rapid.IntRange(1, 5).Draw(t, "workers"), 5)
	})
}

// The simulation has floors: enough must happen in it, or it proves nothing.
func TestSimulationIsNoIdyll(t *testing.T) {
	w := simulate(t.Fatalf, 1, faults{lose: 10, delay: 10, pause: 15, unclean: 20, crash: 20}, 4, 60)
	if len(w.leaders) < 30 || len(w.epochs) < 100 || w.lapses < 10 || w.started < 10 {
		t.Errorf("%d terms, %d starts, %d unclean ends, %d workers", len(w.leaders), len(w.epochs), w.lapses, w.started)
	}
	t.Logf("%d terms, %d starts, %d unclean ends, %d workers", len(w.leaders), len(w.epochs), w.lapses, w.started)
}

// Without faults the role is never long without a worker.
func TestFaultlessControl(t *testing.T) {
	w := simulate(t.Fatalf, 2, faults{}, 3, 30)
	if w.started > 100 {
		t.Errorf("%d workers were replaced", w.started)
	}
}
