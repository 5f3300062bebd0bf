package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/internal/observed"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// DefaultFlushTimeout bounds how long a clean stop waits for the log.
const DefaultFlushTimeout = 2 * time.Second

// Config says what a Bridge does.
type Config struct {
	// Election is the name under which the lock's events are published.
	Election events.Election
	// Options are those of the candidate; Lead and Observe are the bridge's.
	Options election.Options
	// Prefix is the first part of every subject.
	Prefix string
	// FlushTimeout is how long the lock is held on a clean stop, at most, for
	// the log to take the end of the term; at most a fifth of the drain
	// timeout is used. Zero means DefaultFlushTimeout.
	FlushTimeout time.Duration
	// Metrics and Tracers may be nil.
	Metrics *instruments.Metrics
	Tracers trace.TracerProvider
	Logger  *slog.Logger
}

// Bridge is one candidate and its part in the log. Create it with New and call
// Run once.
type Bridge struct {
	cfg      Config
	lock     election.Lock
	nc       *nats.Conn
	book     *logbook.Book
	elector  *election.Elector
	recorder *events.Recorder
	metrics  *instruments.Election
	tracer   *failover.Tracer

	front front
	gate  gate

	// free is since when this replica has known that nobody holds the lock.
	free atomic.Pointer[time.Time]

	mu     sync.Mutex
	logErr error // why the log is not followed now
	desk   *desk // of the term; nil when there is none
}

// New returns a bridge between a lock and a log. The connection may not be up
// yet: elections do not depend on it.
func New(lock election.Lock, nc *nats.Conn, book *logbook.Book, cfg Config) (*Bridge, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.FlushTimeout == 0 {
		cfg.FlushTimeout = DefaultFlushTimeout
	}
	b := &Bridge{
		cfg: cfg, lock: lock, nc: nc, book: book, logErr: errors.New("the log has not been reached yet"),
		front: front{nc: nc, election: cfg.Election},
	}
	opts := cfg.Options
	opts.Lead, opts.Observe, opts.Logger = b.lead, b.observe, cfg.Logger
	opts.Hooks.Heard = func() { b.metrics.WatchSeen(time.Now()) }
	b.tracer = failover.New(failover.Options{
		Provider: cfg.Tracers, Election: cfg.Election, Identity: opts.Identity, Prefix: cfg.Prefix,
	})
	if b.tracer != nil {
		opts.Hooks.Wrote = b.wrote
	}
	var err error
	if b.elector, err = election.New(lock, opts); err != nil {
		return nil, err
	}
	b.metrics = cfg.Metrics.Standing(cfg.Election, opts.Identity)
	b.recorder, err = events.NewRecorder(book, events.RecorderOptions{
		Reporter: events.Reporter{Identity: opts.Identity, Perspective: events.ByWitness},
		Delay:    opts.Default().RetryPeriod,
		Read:     b.read,
		Logger:   cfg.Logger,
		Hooks: events.Hooks{
			Assigned: b.assigned,
			Append:   b.append,
			Failed:   b.failed,
			Dropped:  b.dropped,
		},
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Elector returns the candidate, for requests that do not come over NATS.
func (b *Bridge) Elector() *election.Elector { return b.elector }

// Run stands for election and records what happens until ctx ends, and then
// stops cleanly: the end of a running term is in the log before the lock is
// released, unless the log cannot be reached within the flush timeout. Its
// errors are those of election.Elector.Run.
func (b *Bridge) Run(ctx context.Context) error {
	defer b.metrics.Close()
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.recorder.Run(recording) })
	wg.Go(func() { _ = b.book.Follow(recording, b.cfg.Election, b.recorder, b.seen, b.followed) })
	b.front.prepare(0)
	err := b.elector.Run(ctx)
	b.front.close()
	stop()
	wg.Wait()
	return err
}

// lead is the work of a term: to answer requests to the leader, to see to it
// that every grant has ended when the lock becomes free, and to bring the
// term's end into the log while the lock is still held.
func (b *Bridge) lead(ctx context.Context, term *election.Term) error {
	office, err := b.open(term)
	if err != nil {
		return fmt.Errorf("offer the leader's services: %w", err)
	}
	defer office.close()
	b.serve(office.desk)
	defer b.serve(nil)
	if epoch := b.recorder.Epoch(b.cfg.Election); epoch != 0 {
		office.desk.assigned(epoch) // the log may have told before the desk was there
	}
	close(b.gate.of(term))
	<-ctx.Done()
	var end *election.EndError
	if !errors.As(context.Cause(ctx), &end) || !end.Held {
		// The lock may be another's already, who waits for these grants to
		// lapse. Not until then may this process stand again.
		office.desk.wait(false)
		return nil
	}
	drain := b.cfg.Options.Default().DrainTimeout
	// What is left for the log when the workers have taken their time, and a
	// fifth of it for the way from there to the release: a term whose work does
	// not end within the drain timeout is not released at all.
	reserve := min(b.cfg.FlushTimeout*5/4, drain/4)
	began := time.Now()
	office.desk.drain(boottime.Now().Add(drain - reserve))
	b.tracer.Step(ctx, failover.Step{Name: failover.Drain, Start: began, End: time.Now()})
	if term.Check() != nil {
		return nil // it ended while the workers did, and that was observed
	}
	o := observed.Of(b.elector.Snapshot().State)
	o.Status, o.Own, o.Reason, o.At = events.Ended, true, events.Reason(end.Reason), time.Now()
	b.recorder.Observe(b.cfg.Election, o)
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), reserve*4/5)
	defer cancel()
	if err := b.recorder.Flush(flush, b.cfg.Election); err != nil {
		b.cfg.Logger.Warn("the end of the term is not in the log yet; another replica will report it", "error", err)
	}
	return nil
}

func (b *Bridge) serve(d *desk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.desk = d
}

func (b *Bridge) observe(s election.State) {
	b.recorder.Observe(b.cfg.Election, observed.Of(s))
	b.metrics.SetLeading(s.Own && s.Status == election.Held)
	b.metrics.SetHeld(s.Status == election.Held)
	if free := b.free.Swap(nil); free != nil && s.Own && s.Status == election.Held {
		b.metrics.Handover(context.Background(), s.At.Sub(*free))
	}
	if s.Status == election.Free || s.Status == election.Lapsed {
		b.free.Store(&s.At)
	}
	if s.Status == election.Lapsed {
		b.waited(s)
	}
}

// read is the recorder's look at the lock itself.
func (b *Bridge) read(ctx context.Context, _ events.Election) (events.Observed, error) {
	obs, err := b.lock.Read(ctx)
	if err != nil {
		return events.Observed{}, err
	}
	return observed.Present(obs), nil
}

func (b *Bridge) assigned(_ events.Election, o events.Observed, epoch uint64) {
	if term := b.elector.Term(); term != nil && term.Acquired().Equal(o.AcquireTime) {
		term.SetEpoch(epoch)
		b.metrics.SetEpoch(epoch)
		b.mu.Lock()
		d := b.desk
		b.mu.Unlock()
		if d != nil {
			d.assigned(epoch)
		}
	}
}

func (b *Bridge) failed(_ events.Election, err error) {
	b.metrics.Appended(context.Background(), 0, err)
	b.cfg.Metrics.Failed(context.Background(), instruments.PartLog)
	b.metrics.SetQueued(b.recorder.Stats().Queued)
}

func (b *Bridge) dropped(events.Election, events.Observed, error) {
	b.metrics.Dropped(context.Background())
}

// followed notes whether the log is followed, and says so once for each
// change.
func (b *Bridge) followed(err error) {
	b.mu.Lock()
	before := b.logErr
	b.logErr = err
	b.mu.Unlock()
	b.cfg.Metrics.LogReachable(err == nil)
	switch {
	case err == nil && before != nil:
		b.cfg.Logger.Info("following the log", "election", b.cfg.Election.String())
	case err != nil && (before == nil || before.Error() != err.Error()):
		b.cfg.Logger.Warn("the log cannot be followed", "election", b.cfg.Election.String(), "error", err)
	}
}
