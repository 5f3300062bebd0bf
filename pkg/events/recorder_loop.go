package events

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	retry "github.com/cenkalti/backoff/v5"
)

// result is the outcome of a request.
type result struct {
	account *account
	plan    plan
	after   uint64 // the tail's sequence when the request was made
	tail    Tail
	state   Observed
	seq     uint64
	took    time.Duration
	// remade tells that the log was gone and has been made anew.
	remade bool
	err    error
}

// loop is what belongs to one call of Run; its goroutine owns all of it.
type loop struct {
	*Recorder
	timers timers
	// waiting are the accounts that have something to do and no worker, and
	// running is how many requests are under way.
	waiting [kinds][]*account
	running [kinds]int
	appends []result // what to append next, together
	calls   []func() // what to tell others, once mu is free
	wg      sync.WaitGroup
}

// Run works until ctx ends, and then gives up what is under way. What is still
// in the queues is lost; Flush before is the way to a clean end. It returns nil,
// or an error when it was called before.
func (r *Recorder) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.started {
		r.mu.Unlock()
		return errors.New("run a recorder: Run was called twice")
	}
	r.started = true
	r.mu.Unlock()
	l := &loop{Recorder: r}
	defer close(r.stopped)
	defer l.wg.Wait()
	requests, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(l.turn(requests))
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// turn looks at all accounts that ask for it, and returns how long there is
// nothing more to do if nothing happens.
func (l *loop) turn(ctx context.Context) time.Duration {
	now := time.Now()
	l.mu.Lock()
	for _, res := range l.results {
		l.finish(res, now)
	}
	clear(l.results)
	l.results = l.results[:0]
	for n := 0; n < atOnce && len(l.timers) > 0 && !l.timers[0].wakeAt.After(now); n++ {
		a := l.timers[0]
		heap.Pop(&l.timers)
		l.process(ctx, a, now)
	}
	for n := 0; n < atOnce && len(l.ready) > 0; n++ {
		a := take(&l.ready)
		a.ready = false
		l.process(ctx, a, now)
	}
	for k := range kinds {
		for len(l.waiting[k]) > 0 && l.running[k] < l.opts.limit(k) {
			a := take(&l.waiting[k])
			a.waiting[k] = false
			l.process(ctx, a, now)
		}
	}
	nap := time.Hour
	if len(l.timers) > 0 {
		nap = l.timers[0].wakeAt.Sub(now)
	}
	if len(l.ready) > 0 {
		nap = 0
	}
	l.launch(ctx)
	l.mu.Unlock()
	l.tellOthers()
	return nap
}

// atOnce bounds how many accounts a turn looks at, and so how long Observe may
// have to wait for mu.
const atOnce = 128

// take takes the first account off a list.
func take(list *[]*account) *account {
	a := (*list)[0]
	(*list)[0] = nil
	if *list = (*list)[1:]; len(*list) == 0 {
		*list = nil
	}
	return a
}

func (l *loop) tellOthers() {
	for _, call := range l.calls {
		call()
	}
	clear(l.calls)
	l.calls = l.calls[:0]
}

// process does what an account needs now. The caller holds mu.
func (l *loop) process(ctx context.Context, a *account, now time.Time) {
	if l.accounts[a.election] != a {
		return
	}
	queued := len(a.queue)
	p := a.plan(now, &l.opts)
	l.stats.Queued += len(a.queue) - queued
	for _, u := range p.unfit {
		l.stats.Dropped++
		l.calls = append(l.calls, func() { l.drop(a.election, u.state, u.err) })
	}
	l.assign(a)
	l.schedule(a, p.at)
	k := p.deed.kind()
	switch {
	case p.deed == rest:
		l.unblock(a, p)
	case l.running[k] < l.opts.limit(k):
		l.start(ctx, a, p)
	case !a.waiting[k]:
		a.waiting[k] = true
		l.waiting[k] = append(l.waiting[k], a)
	}
}

// assign tells the number of the own term when it is new.
func (l *loop) assign(a *account) {
	epoch := a.ownEpoch()
	if epoch == a.epoch {
		return
	}
	a.epoch = epoch
	if o := a.last; epoch != 0 && l.opts.Hooks.Assigned != nil {
		l.calls = append(l.calls, func() { l.opts.Hooks.Assigned(a.election, o, epoch) })
	}
}

// unblock ends the waits for an account whose log says all that was observed,
// and forgets the account when there is nothing to it.
func (l *loop) unblock(a *account, p plan) {
	if a.busy || !a.tailKnown || len(a.queue) > 0 {
		return
	}
	for _, done := range a.flush {
		close(done)
	}
	a.flush = nil
	if p.at.IsZero() && a.idle() {
		delete(l.accounts, a.election)
	}
}

func (l *loop) schedule(a *account, at time.Time) {
	switch {
	case at.IsZero() && a.place >= 0:
		heap.Remove(&l.timers, a.place)
	case at.IsZero():
	case a.place >= 0:
		a.wakeAt = at
		heap.Fix(&l.timers, a.place)
	default:
		a.wakeAt = at
		heap.Push(&l.timers, a)
	}
}

// start makes a request. The caller holds mu.
func (l *loop) start(ctx context.Context, a *account, p plan) {
	if p.deed == readStore {
		a.asking = true
	} else {
		a.busy, a.stale, a.inFlight = true, false, p.upTo
	}
	l.running[p.deed.kind()]++
	res := result{account: a, plan: p, after: a.tail.Seq}
	if p.deed == appendEvents {
		l.appends = append(l.appends, res)
		return
	}
	l.wg.Go(func() { l.finished(l.read(ctx, res)) })
}

// read does the I/O of a plan that reads something.
func (r *Recorder) read(ctx context.Context, res result) result {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if res.plan.deed == readStore {
		res.state, res.err = r.opts.Read(ctx, res.account.election)
		return res
	}
	res.tail, res.err = r.journal.Tail(ctx, res.account.election)
	if errors.Is(res.err, ErrNoStream) {
		res.remake(r.journal.Ensure(ctx))
	}
	return res
}

// launch begins the appends that are due. While many are under way the next
// ones gather. The caller holds mu.
func (l *loop) launch(ctx context.Context) {
	if len(l.appends) == 0 || l.appending >= l.opts.Workers {
		return
	}
	all := l.appends
	l.appends = nil
	l.appending++
	l.wg.Go(func() {
		l.append(ctx, all)
		l.mu.Lock()
		l.appending--
		l.mu.Unlock()
		l.rouse()
	})
}

// append does the I/O of plans that append.
func (r *Recorder) append(ctx context.Context, all []result) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	began := time.Now()
	additions, ends := make([]Addition, len(all)), make([]func(error), len(all))
	for i, res := range all {
		additions[i] = Addition{Election: res.account.election, After: res.after, Events: res.plan.events}
		if r.opts.Hooks.Assigned != nil {
			// The number of a term need not wait for the news of it.
			additions[i].Progress = func(stored int, seq uint64) {
				r.Tailed(additions[i].Election, Tail{Seq: seq, Last: additions[i].Events[stored-1]})
			}
		}
		if hook := r.opts.Hooks.Append; hook != nil {
			ends[i] = hook(res.account.election, res.plan.events)
		}
	}
	var mu sync.Mutex
	var homeless []result
	r.journal.AppendEach(ctx, additions, func(i int, seq uint64, err error) {
		res := all[i]
		res.seq, res.err, res.took = seq, err, time.Since(began)
		if ends[i] != nil {
			ends[i](err)
		}
		if errors.Is(err, ErrNoStream) {
			mu.Lock()
			homeless = append(homeless, res)
			mu.Unlock()
		} else {
			r.finished(res)
		}
	})
	if len(homeless) == 0 {
		return
	}
	err := r.journal.Ensure(ctx)
	for _, res := range homeless {
		res.remake(err)
		r.finished(res)
	}
}

// remake takes in that the log was made anew, or why not.
func (res *result) remake(err error) {
	if res.remade = err == nil; !res.remade {
		res.err = errors.Join(res.err, err)
	}
}

// finished hands the outcome of a request to the owner.
func (r *Recorder) finished(res result) {
	r.mu.Lock()
	r.results = append(r.results, res)
	r.mu.Unlock()
	r.rouse()
}

// finish takes in the outcome of a request. The caller holds mu.
func (l *loop) finish(res result, now time.Time) {
	a := res.account
	l.running[res.plan.deed.kind()]--
	l.touch(a)
	if res.plan.deed == readStore {
		a.asking = false
	} else {
		a.busy = false
	}
	switch {
	case res.remade:
		// All tails are gone, not only this one.
		l.recheckLocked()
	case errors.Is(res.err, ErrBehind):
		l.stats.Behind++
		a.tailKnown = false
		if a.behind++; a.behind > 3 {
			a.retryAt = now.Add(a.backOff(&l.opts))
		}
	case res.err != nil:
		l.failed(a, res, now)
	default:
		l.succeeded(a, res, now)
	}
	a.stale = a.stale && a.busy
}

func (l *loop) failed(a *account, res result, now time.Time) {
	l.stats.Failed++
	l.stats.LastError, a.lastErr = res.err, res.err
	pause := now.Add(a.backOff(&l.opts))
	switch res.plan.deed {
	case rest:
	case readTail:
		a.retryAt = pause
	case appendEvents:
		a.retryAt, a.tailKnown = pause, false
	case readStore:
		a.askAgain(res.plan.entry, pause)
	}
	if f := l.opts.Hooks.Failed; f != nil {
		l.calls = append(l.calls, func() { f(a.election, res.err) })
	}
}

func (a *account) backOff(opts *RecorderOptions) time.Duration {
	if a.pause == nil {
		a.pause = retry.NewExponentialBackOff()
		a.pause.InitialInterval, a.pause.MaxInterval = opts.Retry, opts.RetryLimit
		a.pause.Reset()
	}
	return a.pause.NextBackOff()
}

func (l *loop) succeeded(a *account, res result, now time.Time) {
	l.stats.LastError, a.lastErr = nil, nil
	a.pause = nil
	switch res.plan.deed {
	case rest:
	case readTail:
		l.tailRead(a, res)
	case readStore:
		a.storeRead(res, now, &l.opts)
	case appendEvents:
		a.behind = 0
		queued := len(a.queue)
		a.appended(res)
		l.stats.Queued += len(a.queue) - queued
		l.stats.Appended += uint64(len(res.plan.events))
		if f := l.opts.Hooks.Appended; f != nil {
			l.calls = append(l.calls, func() { f(a.election, res.plan.events, res.seq, res.took) })
		}
	}
}

// tailRead takes in the tail as the log gave it. One that ends before what was
// seen already tells that the log has lost its end, and not only here.
func (l *loop) tailRead(a *account, res result) {
	if a.stale {
		return
	}
	if a.tail.Seq > res.after && a.tail.Seq > res.tail.Seq {
		return // it has been told of a later one meanwhile: read again
	}
	lost := res.tail.Seq < a.tail.Seq || res.tail.Last.Epoch < a.tail.Last.Epoch
	if lost {
		a.gap = true
		if a.loss == l.losses {
			l.recheckLocked()
		}
	}
	a.setTail(res.tail)
	a.loss = l.losses
}

// appended takes in that the events of the plan are in the log.
func (a *account) appended(res result) {
	if c := a.confirmed; c != nil {
		a.last.Revision = c.Revision
	}
	if res.seq > a.tail.Seq {
		known := a.tailKnown
		a.setTail(Tail{Seq: res.seq, Last: res.plan.events[len(res.plan.events)-1]})
		a.tailKnown = known
	}
	a.done(res.plan.upTo)
	a.gap = res.plan.gap
}

// storeRead takes in what the store says about the last state.
func (a *account) storeRead(res result, now time.Time, opts *RecorderOptions) {
	// If the news do not come meanwhile.
	a.askAgain(res.plan.entry, now.Add(opts.delay()+opts.Retry))
	if res.plan.entry != 0 {
		if e := a.entry(res.plan.entry); e != nil {
			if res.state.Status == Held && sameTerm(res.state, e.Observed) && res.state.Revision == e.Revision {
				e.checked, e.due = true, now
			}
		}
		return
	}
	c := a.last
	same := res.state.Status == c.Status || c.Status == Lapsed && res.state.Status == Held && res.state.Revision == c.Revision
	if (c.Status == Held || c.Status == Lapsed) && !sameTerm(res.state, c) {
		same = false
	}
	if same && a.tail.Seq == res.after && a.tailKnown {
		own := c.Own
		c.update(res.state)
		c.Own, c.Confirmed = own, true
		a.confirmed, a.confirmedAt = &c, a.tail.Seq
	}
}

func (a *account) entry(id uint64) *entry {
	for i := range a.queue {
		if a.queue[i].id == id {
			return &a.queue[i]
		}
	}
	return nil
}

// askAgain says when to ask the store again, about an entry or the last state.
func (a *account) askAgain(id uint64, at time.Time) {
	if id == 0 {
		a.doubtAt = at
	} else if e := a.entry(id); e != nil {
		// Until then a renewal still takes it back.
		e.due, e.askAt = at, at
	}
}

// timers is a heap of accounts by the time at which to look at them.
type timers []*account

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].wakeAt.Before(t[j].wakeAt) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

func (t *timers) Push(x any) {
	a, ok := x.(*account)
	if !ok {
		return
	}
	a.place = len(*t)
	*t = append(*t, a)
}

func (t *timers) Pop() any {
	old := *t
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	a.place = -1
	return a
}
