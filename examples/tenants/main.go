// Command tenants is a controller that runs in one place at a time: for each
// key of a NATS bucket it keeps a JetStream consumer. README.md tells how to
// run it.
//
// It works only while it holds the grant of its role, looks at the clock right
// before each change, and writes the number of its term into each consumer. It
// leaves a consumer alone that a later term has written: then there is a
// successor.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/examples/tenants/desired"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

func main() {
	url := flag.String("nats-url", nats.DefaultURL, "address of NATS")
	election := flag.String("election", "prod/scheduler", "election whose leader gives the grant")
	bucket := flag.String("bucket", "tenants", "key-value bucket with a key for each tenant")
	stream := flag.String("stream", "ORDERS", "stream of all orders, on orders.TENANT.>")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *url, *election, *bucket, *stream)
	stop()
	if err != nil {
		slog.Error("the controller has ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, election, bucket, stream string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	namespace, lease, _ := strings.Cut(election, "/")
	c := &controller{js: js, bucket: bucket, stream: stream}
	w, err := worker.New(nc, worker.Options{
		Election: events.Election{Cluster: "default", Namespace: namespace, Lease: lease},
		Role:     "tenants",
		Handler:  c.work,
		Logger:   slog.Default(),
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

type controller struct {
	js             jetstream.JetStream
	bucket, stream string
}

// resync is how often the controller looks, although nothing has been set.
const resync = 30 * time.Second

// work is the handler: it runs for as long as the term lasts.
func (c *controller) work(ctx context.Context, t worker.Term) error {
	kv, err := c.js.KeyValue(ctx, c.bucket)
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", c.bucket, err)
	}
	changes, err := kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("watch the bucket %s: %w", c.bucket, err)
	}
	defer func() { _ = changes.Stop() }() // the context may have done it
	tick := time.NewTicker(resync)
	defer tick.Stop()
	tenants := map[string]desired.Tenant{}
	complete := false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case change, ok := <-changes.Updates():
			switch {
			case !ok:
				return errors.New("the watch has ended")
			case change == nil:
				complete = true // all keys of now have been seen
			case change.Operation() != jetstream.KeyValuePut:
				delete(tenants, change.Key())
			default:
				var tenant desired.Tenant
				if err := json.Unmarshal(change.Value(), &tenant); err != nil {
					slog.Warn("passing over a tenant", "tenant", change.Key(), "error", err)
					continue
				}
				tenants[change.Key()] = tenant
			}
		}
		if !complete {
			continue
		}
		if err := c.reconcile(ctx, t, desired.Consumers(tenants)); err != nil {
			return err
		}
	}
}

// reconcile makes the consumers what they should be.
func (c *controller) reconcile(ctx context.Context, t worker.Term, want []desired.Consumer) error {
	stream, err := c.js.Stream(ctx, c.stream)
	if err != nil {
		return fmt.Errorf("look up the stream %s: %w", c.stream, err)
	}
	var have []desired.Consumer
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if desired.Owned(info.Name) {
			h := desired.Consumer{Name: info.Name, Filter: info.Config.FilterSubject, MaxAckPending: info.Config.MaxAckPending}
			switch seen, err := strconv.ParseUint(info.Config.Metadata[epochKey], 10, 64); {
			case err == nil && seen > t.Epoch:
				return &worker.StaleEpochError{Epoch: t.Epoch, Seen: seen}
			case err != nil || seen < t.Epoch:
				h.Filter = "" // to be written anew, with our number
			}
			have = append(have, h)
		}
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("list the consumers of %s: %w", c.stream, err)
	}
	put, drop := desired.Diff(want, have)
	for _, w := range put {
		if err := t.Check(); err != nil { // right before each change
			return err
		}
		if _, err := stream.CreateOrUpdateConsumer(ctx, config(t, w)); err != nil {
			return fmt.Errorf("make the consumer %s: %w", w.Name, err)
		}
		slog.Info("made or changed a consumer", "consumer", w.Name, "epoch", t.Epoch)
	}
	for _, name := range drop {
		if err := t.Check(); err != nil {
			return err
		}
		if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("delete the consumer %s: %w", name, err)
		}
		slog.Info("deleted a consumer", "consumer", name, "epoch", t.Epoch)
	}
	return nil
}

// epochKey is where a consumer says in which term it was written. JetStream has
// no condition for changes of consumers, so that a pause behind the look at it
// could still let a late write through; the check of the clock makes that a
// rare thing, and the successor's next look repairs it.
const epochKey = "epoch"

func config(t worker.Term, c desired.Consumer) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: c.Name, FilterSubject: c.Filter, MaxAckPending: c.MaxAckPending,
		AckPolicy: jetstream.AckExplicitPolicy,
		Metadata:  map[string]string{epochKey: strconv.FormatUint(t.Epoch, 10)},
	}
}
