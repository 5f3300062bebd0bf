package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Journal is what a [Recorder] needs of the log. [Log] is the one in use.
type Journal interface {
	// Tail and AppendEach are those of [Log]: an append that was not certainly
	// made is followed by a look at the tail.
	Tail(ctx context.Context, e Election) (Tail, error)
	AppendEach(ctx context.Context, all []Addition, told func(i int, last uint64, err error))
	// Ensure makes the log anew after [ErrNoStream].
	Ensure(ctx context.Context) error
}

// RecorderOptions say how a [Recorder] works. Only Reporter must be set.
type RecorderOptions struct {
	Reporter Reporter

	// Delay is how long a state that is not the replica's own is left to
	// others to report, on average: the wait is drawn from half of it to one
	// and a half. Two seconds when zero; negative for no wait. Longer waits
	// save refused appends among replicas, and make reports of a crash later.
	Delay time.Duration
	// QueueLimit is how many states of one election are kept while the log
	// cannot be written: 64 when zero, at least 4. An ordinary hand-over is
	// two states.
	QueueLimit int
	// Workers is how many requests may run at once to read the log, to write it
	// and to read the store: 4 of each kind when zero. Appends that are due
	// together are one request.
	Workers int
	// Timeout bounds each such request: 5 seconds when zero.
	Timeout time.Duration
	// Retry is the first pause after a request that failed, and RetryLimit the
	// longest: 100 milliseconds and 5 seconds when zero.
	Retry, RetryLimit time.Duration

	// Read reads the lock's state from the store itself, as a [Held], [Free]
	// or [Absent] state. The recorder asks when a lease seems to have lapsed,
	// and when the log knows of later things than the replica: either the
	// replica's view lags, or the store was set back. When nil, a lapse is
	// believed as observed, and a store that was set back goes unnoticed until
	// its revisions are above the former ones.
	Read func(ctx context.Context, e Election) (Observed, error)

	Hooks Hooks
	// Rand returns numbers from 0 up to 1; math/rand's when nil.
	Rand func() float64
	// Logger is told of what was dropped; nil for nobody.
	Logger *slog.Logger
}

// Hooks tell others what a recorder does. Each may be nil. They are called
// from the recorder's goroutines, or from Observe's caller, must return soon and
// may call only those of the recorder's methods that do not wait.
type Hooks struct {
	// Assigned gives the number of the replica's own term as soon as it is in
	// the log, whoever wrote it there, and again if it changes: o is the
	// term's state.
	Assigned func(e Election, o Observed, epoch uint64)
	// Append is called before events are appended, and may give them a trace
	// context. The function returned, if not nil, is told the outcome before
	// anybody acts on it: before Flush returns.
	Append func(e Election, events []Event) func(error)
	// Appended is called after events have been stored, seq being the sequence
	// of the last one, and took the time that the append itself took.
	Appended func(e Election, events []Event, seq uint64, took time.Duration)
	// Failed is called for every request that failed, and will be made again.
	// An append that a rival made first is not a failure.
	Failed func(e Election, err error)
	// Dropped is called for each state that could not be kept or reported. The
	// next event of the election will tell by its Missed.
	Dropped func(e Election, o Observed, err error)
}

// Stats are numbers about a recorder's work since it was made.
type Stats struct {
	// Elections is how many it looks after now, and Queued how many states of
	// them are not in the log yet, as far as it knows.
	Elections, Queued int
	// Appended counts events, Behind the appends that a rival had made first,
	// Failed the requests that failed otherwise, Dropped the states that
	// could not be kept or reported.
	Appended, Behind, Failed, Dropped uint64
	// LastError is the last failure, and nil once a request has succeeded
	// after it.
	LastError error
}

// Recorder keeps the log of many elections true, given the states that a
// replica observes. Create it with [NewRecorder] and call Run once; the other
// methods may be called from any goroutine, at any time, and only Flush and
// FlushAll wait.
//
// # What it promises
//
// States are kept in order, per election, until the log says what they say, be
// it by this replica's doing or another's. Its own terms a replica reports at
// once, together with whatever lies before them; what it saw of others it
// leaves to them for a while ([RecorderOptions.Delay]) and reports only what the
// log then lacks. While the log cannot be reached states wait, and keep their
// times.
//
// A queue has a limit. What does not fit is dropped, the oldest first, save the
// very first; the next event tells by its Missed how many terms that were. So
// does a replica that has not seen everything: it lets those speak first who
// may have.
//
// The log is held against the present state, not only against changes: when
// it loses its end, or comes back empty, the present state is reported anew.
// [Recorder.Recheck] makes it look.
//
// # What is not an end
//
// A lease that lapses, and a lock that is deleted, end the term only if the
// holder does not come back before the report is due; for a deletion that is at
// least the rest of the lease. A lapse is reported only after a read from the
// store itself has shown the record unchanged.
//
// # What it costs
//
// A renewal is a look into a map. An election whose log is true costs memory
// only, about one kilobyte. There is one goroutine, and one for each request
// under way, of which there are Workers at most of each kind.
type Recorder struct {
	journal Journal
	opts    RecorderOptions

	wake    chan struct{} // something is ready for the owner
	stopped chan struct{}

	// mu guards what follows. Others put states, tails and results in; only the
	// goroutine of Run decides on anything, and starts requests.
	mu       sync.Mutex
	accounts map[Election]*account
	ready    []*account
	results  []result
	stats    Stats
	losses   uint64 // of the log's end, as far as noticed
	// appending is how many calls of AppendEach are under way.
	appending int
	started   bool
}

// NewRecorder returns a recorder that writes to the journal.
func NewRecorder(journal Journal, opts RecorderOptions) (*Recorder, error) {
	if opts.Reporter.Identity == "" {
		return nil, errors.New("make a recorder: the reporter has no identity")
	}
	if p := opts.Reporter.Perspective; p != ByWitness && p != ByWatcher {
		return nil, fmt.Errorf("make a recorder: the perspective is %s: want witness or watcher", quote(string(p)))
	}
	orDefault(&opts.Delay, 2*time.Second)
	orDefault(&opts.QueueLimit, 64)
	orDefault(&opts.Workers, 4)
	orDefault(&opts.Timeout, requestTimeout)
	orDefault(&opts.Retry, 100*time.Millisecond)
	orDefault(&opts.RetryLimit, 5*time.Second)
	if opts.QueueLimit < 4 || opts.Workers < 0 || opts.Timeout < 0 || opts.Retry < 0 || opts.RetryLimit < opts.Retry {
		return nil, fmt.Errorf("make a recorder: queue limit %d, %d workers, timeout %s, retry %s to %s: want at least 4, and no negative value or range",
			opts.QueueLimit, opts.Workers, opts.Timeout, opts.Retry, opts.RetryLimit)
	}
	if opts.Rand == nil {
		opts.Rand = rand.Float64
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Recorder{
		journal: journal, opts: opts,
		wake:     make(chan struct{}, 1),
		stopped:  make(chan struct{}),
		accounts: map[Election]*account{},
	}, nil
}

func orDefault[T int | time.Duration](value *T, fallback T) {
	if *value == 0 {
		*value = fallback
	}
}

// Observe takes in a state of an election. States of one election come in the
// order in which they were observed, from one goroutine at a time.
func (r *Recorder) Observe(e Election, o Observed) {
	now := time.Now()
	r.mu.Lock()
	a := r.accounts[e]
	if a == nil {
		a = &account{election: e, place: -1}
		r.accounts[e] = a
	}
	queued := len(a.queue)
	attention, dropped := a.observe(o, now, &r.opts)
	if attention && o.Own && len(a.queue) > queued {
		a.retryAt = time.Time{} // this is not to wait for an old failure
	}
	r.stats.Queued += len(a.queue) - queued
	if attention {
		r.touch(a)
	}
	r.stats.Dropped += uint64(len(dropped))
	r.mu.Unlock()
	for _, d := range dropped {
		r.drop(e, d.Observed, fmt.Errorf("more than %d states wait for the log", r.opts.QueueLimit))
	}
}

// Tailed takes in what the log says, as it is followed. Tails of elections that
// were never observed, and tails that are older than what is known, are ignored.
func (r *Recorder) Tailed(e Election, t Tail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.accounts[e]; a != nil && t.Seq > a.tail.Seq {
		a.follow(t)
		r.touch(a)
	}
}

// Recheck makes the recorder read the tails of all elections again, and hold
// them against the present states. Call it when the log may have lost
// something: after a reconnect, and when whoever follows the log had to begin
// anew. Pauses after failures are cut short.
func (r *Recorder) Recheck() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recheckLocked()
}

func (r *Recorder) recheckLocked() {
	r.losses++ // as far as we know
	for _, a := range r.accounts {
		a.tailKnown = false
		a.stale = a.busy
		a.retryAt = time.Time{}
		r.touch(a)
	}
}

// Flush waits until the log says all that was observed of an election before
// the call, without leaving anything to others. When ctx ends first, it returns
// an error that wraps its cause and the last failure.
func (r *Recorder) Flush(ctx context.Context, e Election) error {
	r.mu.Lock()
	a := r.accounts[e]
	if a == nil {
		r.mu.Unlock()
		return nil
	}
	done := r.flush(a)
	r.mu.Unlock()
	return r.flushed(ctx, a, done)
}

// FlushAll is Flush for all elections at once. Its error is that of the first
// election found that was not brought up to date, and tells how many there are.
func (r *Recorder) FlushAll(ctx context.Context) error {
	type wait struct {
		account *account
		done    chan struct{}
	}
	r.mu.Lock()
	waits := make([]wait, 0, len(r.accounts))
	for _, a := range r.accounts {
		waits = append(waits, wait{a, r.flush(a)})
	}
	r.mu.Unlock()
	var first error
	failed := 0
	for _, w := range waits {
		if err := r.flushed(ctx, w.account, w.done); err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w (and %d other elections)", first, failed-1)
	}
	return first
}

// flush makes an account hurry, and returns what is closed when its log is up
// to date. The caller holds mu.
func (r *Recorder) flush(a *account) (done chan struct{}) {
	done = make(chan struct{})
	a.flush = append(a.flush, done)
	a.retryAt = time.Time{}
	r.touch(a)
	return done
}

// flushed waits for the end of a flush.
func (r *Recorder) flushed(ctx context.Context, a *account, done chan struct{}) error {
	select {
	case <-done: // also when ctx has ended since
		return nil
	default:
	}
	var err error
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.stopped:
		err = errors.New("the recorder was stopped")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.unflush(done)
	return fmt.Errorf("bring the log of %s up to date: %w", a.election, errors.Join(err, a.lastErr))
}

// Epoch returns the number of the replica's own term in the election; zero when
// it leads none, or when the term is not in the log yet.
func (r *Recorder) Epoch(e Election) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.accounts[e]; a != nil {
		return a.ownEpoch()
	}
	return 0
}

// Stats returns the present numbers.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Elections = len(r.accounts)
	return s
}

// touch makes the owner look at an account. The caller holds mu.
func (r *Recorder) touch(a *account) {
	if a.ready {
		return
	}
	a.ready = true
	r.ready = append(r.ready, a)
	r.rouse()
}

// rouse makes the owner take a turn.
func (r *Recorder) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Recorder) drop(e Election, o Observed, err error) {
	r.opts.Logger.Warn("a state of an election will be missing in the log",
		"election", e.String(), "holder", o.Holder, "revision", o.Revision, "error", err)
	if r.opts.Hooks.Dropped != nil {
		r.opts.Hooks.Dropped(e, o, err)
	}
}
