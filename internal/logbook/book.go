package logbook

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Book is a log that is opened with the first request that succeeds in it. It
// implements events.Journal, and is safe for use by several goroutines.
type Book struct {
	nc      *nats.Conn
	opts    events.Options
	explain func(subject string, err error) error

	opening sync.Mutex
	log     atomic.Pointer[events.Log]
}

// New returns the log behind a connection that may not be up yet. explain may
// add to an error what the server told apart from it, such as a missing
// permission; nil for nothing.
func New(nc *nats.Conn, opts events.Options, explain func(subject string, err error) error) *Book {
	if explain == nil {
		explain = func(_ string, err error) error { return err }
	}
	return &Book{nc: nc, opts: opts, explain: explain}
}

// Log returns the log, opening it first if need be.
func (b *Book) Log(ctx context.Context) (*events.Log, error) {
	if l := b.log.Load(); l != nil {
		return l, nil
	}
	b.opening.Lock()
	defer b.opening.Unlock()
	if l := b.log.Load(); l != nil {
		return l, nil
	}
	l, err := events.Open(ctx, b.nc, b.opts)
	if err != nil {
		return nil, b.explain("", err)
	}
	b.log.Store(l)
	return l, nil
}

// Tail implements events.Journal.
func (b *Book) Tail(ctx context.Context, e events.Election) (events.Tail, error) {
	l, err := b.Log(ctx)
	if err != nil {
		return events.Tail{}, err
	}
	t, err := l.Tail(ctx, e)
	return t, b.explain("", err)
}

// AppendEach implements events.Journal.
func (b *Book) AppendEach(ctx context.Context, all []events.Addition, told func(i int, last uint64, err error)) {
	l, err := b.Log(ctx)
	if err != nil {
		for i := range all {
			told(i, 0, err)
		}
		return
	}
	l.AppendEach(ctx, all, func(i int, last uint64, err error) { told(i, last, b.explain("", err)) })
}

// Ensure implements events.Journal.
func (b *Book) Ensure(ctx context.Context) error {
	if b.log.Load() == nil {
		_, err := b.Log(ctx)
		return err
	}
	return b.explain("", b.log.Load().Ensure(ctx))
}
