package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leaderbridge/leaderbridge/internal/telemetry/failover"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// Options say where the log and the positions are. The zero value is the log
// that every other part of leaderbridge looks for.
type Options struct {
	// Log is where the log is. ReadOnly is set in any case.
	Log events.Options
	// Bucket is the key-value bucket of the positions; DefaultBucket when
	// empty. It is created when absent, with three replicas in a cluster.
	Bucket string
	// Logger may be nil.
	Logger *slog.Logger
	// Tracers makes a span of each call, in the trace of the event's failover;
	// nil for none. TraceLinks makes it link to that trace instead, as it does in
	// any case for an event that is older than a minute.
	Tracers    trace.TracerProvider
	TraceLinks bool
}

// Func handles one transition. Its context ends when the work must stop. An
// error makes it be called again with the same event; see the package.
type Func func(ctx context.Context, t worker.Term, e events.Event) error

// Handler returns the handler of a worker that calls f for the transitions of
// its election, one at a time. The connection stays the caller's. The handler
// returns only when its context ends, or with an error. It may serve any number
// of workers.
func Handler(nc *nats.Conn, o Options, f Func) (worker.Handler, error) {
	if o.Bucket == "" {
		o.Bucket = DefaultBucket
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Log.ReadOnly = true
	// Open asks nothing of the server for a log that is only read.
	log, err := events.Open(context.Background(), nc, o.Log)
	if err != nil {
		return nil, fmt.Errorf("make a handler of events: %w", err)
	}
	js, err := open(nc, o.Log)
	if err != nil {
		return nil, fmt.Errorf("make a handler of events: %w", err)
	}
	return (&feed{o: o, log: log, js: js, handle: f}).run, nil
}

type feed struct {
	o      Options
	log    *events.Log
	js     jetstream.JetStream
	handle Func
}

// call calls the function, in a span.
func (f *feed) call(ctx context.Context, t worker.Term, e events.Event) error {
	relation := failover.ChildOf
	if f.o.TraceLinks || time.Since(e.Time) > time.Minute {
		relation = failover.LinkTo
	}
	consumer := failover.NewConsumer(failover.ConsumerOptions{Provider: f.o.Tracers, Role: t.Role, Relation: relation})
	ctx, span := consumer.RunWorker(ctx, e)
	defer span.End()
	err := f.handle(ctx, t, e)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// errAnew ends a reading of the log that must begin again.
var errAnew = errors.New("the log was made anew")

// run is the worker's handler.
func (f *feed) run(ctx context.Context, t worker.Term) error {
	at, done, err := f.find(ctx, t.Election.KVKey()+"."+t.Role)
	if err != nil {
		return fmt.Errorf("handle events: %w", err)
	}
	if t.Epoch < done.Epoch {
		return fmt.Errorf("handle events: %w", &worker.StaleEpochError{Epoch: t.Epoch, Seen: done.Epoch})
	}
	last, err := f.end(ctx, done)
	if err != nil {
		return fmt.Errorf("handle events: %w", err)
	}
	r := &reading{feed: f, ctx: ctx, term: t, at: at, done: done}
	if done.within(last) {
		// With the event that was handled, to see that it is still there.
		err = r.follow(events.FromSequence(done.Seq), false)
	} else {
		err = r.follow(events.FromLast(), true)
	}
	for errors.Is(err, errAnew) {
		f.o.Logger.Warn("the log is not the one of before, beginning with the last event", "role", t.Role, "handled", r.done.ID)
		err = r.follow(events.FromLast(), true)
	}
	return err
}

// end returns the log's last sequence. One that is below the position means
// that the log was made anew; or that a server answered which leads the stream
// no longer, and finds that out within some seconds.
func (f *feed) end(ctx context.Context, done position) (last uint64, err error) {
	const doubts = 10
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for range doubts {
		if _, last, err = f.log.Bounds(ctx); err != nil || last >= done.Seq {
			return last, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return last, nil
}

// reading is one run of the handler.
type reading struct {
	*feed
	ctx  context.Context
	term worker.Term
	at   *place
	done position
	// rewound is true when the log was made anew under the reader, and begun when
	// the position is one of this log.
	rewound, begun bool
	// failed is what ended it, if that was no fault of the log.
	failed error
}

// follow reads on from the position, or, when fresh, from the last event.
func (r *reading) follow(from events.Start, fresh bool) error {
	r.rewound, r.begun = false, false
	opts := events.FollowOptions{Filter: r.term.Election, From: from, OnState: func(s events.FeedState) {
		r.rewound = r.rewound || errors.Is(s.Err, events.ErrLogRewound)
	}}
	r.failed = nil
	err := r.log.Follow(r.ctx, opts, func(e events.Entry) error {
		if r.rewound && !fresh {
			return errAnew // all that the log holds would be handled again
		}
		r.failed = r.take(e, fresh)
		return r.failed
	})
	if r.failed != nil {
		return r.failed
	}
	return err
}

// take handles an entry of the log, and records that.
func (r *reading) take(e events.Entry, fresh bool) error {
	if e.Gap {
		r.o.Logger.Warn("events were removed from the log before they could be handled", "role", r.term.Role, "next", e.Seq)
	}
	if e.Err != nil {
		r.o.Logger.Debug("passing over a message that is no event", "role", r.term.Role, "error", e.Err)
	}
	switch r.done.next(e) {
	case skip:
		return nil
	case again:
		if !fresh {
			return errAnew
		}
	case handle:
	}
	if err := r.term.Check(); err != nil {
		return err
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if fresh && !r.begun {
		if err := r.set(position{Epoch: r.term.Epoch, Seq: e.Seq, ID: e.Event.ID(), Pending: true}); err != nil {
			return err
		}
		r.begun = true
	}
	if err := r.call(r.ctx, r.term, e.Event); err != nil {
		return err
	}
	if err := r.term.Check(); err != nil {
		return err
	}
	return r.set(position{Epoch: r.term.Epoch, Seq: e.Seq, ID: e.Event.ID()})
}

// set writes the position, also when the work has to stop just now, but not
// beyond the grant.
func (r *reading) set(to position) error {
	left := r.term.Deadline().Sub(worker.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), min(requestTimeout, left/2))
	defer cancel()
	if err := r.at.set(ctx, to); err != nil {
		return err
	}
	r.done = to
	return nil
}
