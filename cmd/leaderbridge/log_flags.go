package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// logFlags say where the log is, for every command that writes to it.
type logFlags struct {
	nats   natsconn.Options
	events events.Options
	mode   string
}

func (f *logFlags) add(flags *pflag.FlagSet) {
	f.nats.AddFlags(flags)
	flags.StringVar(&f.events.Stream, "stream", events.DefaultStream, "`name` of the log's stream; created when absent")
	flags.StringVar(&f.events.Prefix, "prefix", events.DefaultPrefix, "first `tokens` of every subject")
	flags.StringVar(&f.events.Bucket, "leaders-bucket", events.DefaultBucket, "`name` of the key-value bucket that shows the last event of each election")
	flags.IntVar(&f.events.Replicas, "stream-replicas", 0, "`number` of servers that keep a stream that is created; 0: three in a cluster, one else")
	cli.ChoiceVarP(flags, &f.mode, "content-mode", "", string(events.Structured), "how CloudEvents are written: structured or binary",
		string(events.Structured), string(events.Binary))
}

// addRead defines the flags of commands that only read the log.
func (f *logFlags) addRead(flags *pflag.FlagSet) {
	flags.StringVar(&f.events.Stream, "stream", events.DefaultStream, "`name` of the log's stream")
	flags.StringVar(&f.events.Prefix, "prefix", events.DefaultPrefix, "first `tokens` of every subject")
	f.nats.AddFlags(flags)
}

// check returns what is wrong with the flags.
func (f *logFlags) check() error {
	if err := f.nats.Validate(); err != nil {
		return err
	}
	f.events.ContentMode = events.ContentMode(f.mode)
	return events.ValidatePrefix(f.events.Prefix)
}

// at completes the options with what the connection knows.
func (f *logFlags) at(conn *natsconn.Conn) events.Options {
	o := f.events
	o.Domain, o.APIPrefix = conn.JetStreamAt()
	return o
}

// connect opens the connection to NATS.
func (f *logFlags) connect(ctx context.Context, log *slog.Logger) (*natsconn.Conn, error) {
	conn, err := natsconn.Connect(ctx, f.nats, log)
	if bad := new(natsconn.InputError); errors.As(err, &bad) {
		return nil, cli.Usage(err)
	} else if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return conn, nil
}

// untilClosed runs f until it returns, and ends it cleanly when the NATS client
// has given up for good: a process that cannot publish any more must not look
// healthy.
func untilClosed(ctx context.Context, conn *natsconn.Conn, f func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-conn.Done():
			stop()
		case <-ctx.Done():
		}
	}()
	err := f(ctx)
	if gone := conn.Err(); gone != nil {
		err = errors.Join(err, fmt.Errorf("the NATS client has closed the connection: %w", gone))
	}
	return err
}
