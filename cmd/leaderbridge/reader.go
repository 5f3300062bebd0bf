package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// reader is what the commands that only read the log have in common.
type reader struct {
	log     logFlags
	timeout time.Duration
}

func (r *reader) add(flags *pflag.FlagSet) {
	r.log.addRead(flags)
	flags.DurationVar(&r.timeout, "timeout", 10*time.Second, "give up when NATS is silent for so long; not while following or watching")
}

// read connects and calls show with the log. Unless the command goes on for
// ever, it waits for the connection no longer than the timeout.
func (r *reader) read(ctx context.Context, name string, forever bool, log *slog.Logger, show func(*events.Log) error) error {
	if r.timeout <= 0 {
		return cli.Usagef("--timeout %s: must be above zero", r.timeout)
	}
	if !forever {
		log = slog.New(slog.DiscardHandler) // the error says it all
	}
	if r.log.nats.Name == "" {
		r.log.nats.Name = name
	}
	conn, err := r.log.connect(ctx, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	o := r.log.at(conn)
	o.ReadOnly, o.Logger = true, log
	l, err := events.Open(ctx, conn.Conn, o)
	if err != nil {
		return cli.Usage(err) // it asks nobody: only the options can be at fault
	}
	if !forever {
		waiting, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("gave up after %s", r.timeout))
		defer cancel()
		if err := conn.WaitConnected(waiting); err != nil {
			return err
		}
	}
	return conn.Explain("", show(l))
}
