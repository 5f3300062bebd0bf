package main

import (
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
