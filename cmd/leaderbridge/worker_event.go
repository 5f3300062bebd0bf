package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/propagation"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/pkg/worker/feed"
)

// What a run is made for.
const (
	onTerm  = "term"
	onEvent = "event"
)

// eventFlags are about runs that are made for each event.
type eventFlags struct {
	on        string
	publish   string
	timeout   time.Duration
	positions string
}

// eventOnly are the flags that mean nothing to runs for a term, and termOnly
// those that mean nothing to runs for an event.
var (
	eventOnly = []string{"publish", "event-timeout", "positions-bucket"}
	termOnly  = []string{"restart"}
)

func (e *eventFlags) add(flags *pflag.FlagSet) {
	cli.ChoiceVarP(flags, &e.on, "on", "", onTerm, "what is run for: once for the term, for as long as it lasts; or once for each event of the election, which is on standard input", onTerm, onEvent)
	group := pflag.NewFlagSet("Event", pflag.ContinueOnError)
	group.StringVar(&e.publish, "publish", "", "`subject` to publish on what a run writes to standard output, one CloudEvent a line; a stream must take it. Empty: to standard output")
	group.DurationVar(&e.timeout, "event-timeout", 10*time.Second, "how long one run may take")
	group.StringVar(&e.positions, "positions-bucket", feed.DefaultBucket, "`name` of the key-value bucket that keeps how far a role has come; created when absent")
	cli.AddGroup(flags, group)
}

const bucketLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func (e *eventFlags) check(prefix string) error {
	if e.timeout <= 0 {
		return fmt.Errorf("--event-timeout %s must be above zero", e.timeout)
	}
	if e.positions == "" || strings.Trim(e.positions, bucketLetters) != "" {
		return fmt.Errorf("--positions-bucket %q: want letters, digits, - and _", e.positions)
	}
	if e.publish == "" {
		return nil
	}
	for token := range strings.SplitSeq(e.publish, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n") {
			return fmt.Errorf("--publish %q is no subject: want words separated by dots, without *, > and spaces", e.publish)
		}
	}
	if strings.HasPrefix(e.publish, prefix+".") || strings.HasPrefix(e.publish, "$") {
		return fmt.Errorf("--publish %q: subjects that begin with %s. are leaderbridge's own, and with $ those of NATS", e.publish, prefix)
	}
	return nil
}

// handler makes a run of the task for each event.
func (e *eventFlags) handler(conn *natsconn.Conn, o worker.Options, work task, stdout io.Writer) (worker.Handler, error) {
	out := &outlet{conn: conn, subject: e.publish, stdout: stdout, log: o.Logger}
	if e.publish != "" {
		js, err := conn.JetStream()
		if err != nil {
			return nil, err
		}
		out.js = js
	}
	return feed.Handler(conn.Conn, feed.Options{Log: o.Log, Bucket: e.positions, Logger: o.Logger, Tracers: o.Tracers, TraceLinks: o.TraceLinks},
		func(ctx context.Context, t worker.Term, ev events.Event) error {
			_, in, err := events.Encode(ev, events.Structured)
			if err != nil {
				return err
			}
			return work.forEvent(ctx, t, in, out.put)
		})
}

// outlet is where the events of runs go.
type outlet struct {
	conn    *natsconn.Conn
	js      jetstream.JetStream
	subject string
	stdout  io.Writer
	log     *slog.Logger
}

// put publishes one CloudEvent in structured JSON, and returns when a stream
// has it.
func (o *outlet) put(ctx context.Context, event []byte) error {
	if o.subject == "" {
		_, err := fmt.Fprintf(o.stdout, "%s\n", event)
		return err
	}
	var about struct{ ID, Source string }
	if err := json.Unmarshal(event, &about); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	msg := nats.NewMsg(o.subject)
	msg.Data = event
	msg.Header.Set("Content-Type", "application/cloudevents+json")
	// Source and id together name an event: the stream refuses a second copy
	// for as long as it remembers the first.
	msg.Header.Set(jetstream.MsgIDHeader, url.PathEscape(about.Source)+"#"+url.PathEscape(about.ID))
	// The trace goes on below the run, for whoever follows it.
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for name, value := range carrier {
		msg.Header[name] = []string{value} // in lower case, as in the log
	}
	ack, err := o.js.PublishMsg(ctx, msg)
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		err = fmt.Errorf("no stream takes this subject, make one: %w", err)
	}
	if err != nil {
		return o.conn.Explain(o.subject, fmt.Errorf("publish on %s: %w", o.subject, err))
	}
	if ack.Duplicate {
		o.log.Info("the stream has this event already", "id", about.ID, "source", about.Source, "stream", ack.Stream)
	}
	return nil
}
