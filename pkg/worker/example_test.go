package worker_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// A handler checks its term right before each external write, and hands the
// epoch to the storage, which refuses an older one.
func ExampleHandler() {
	var storage worker.Fence
	handler := func(ctx context.Context, t worker.Term) error {
		for i := 1; i <= 2; i++ {
			if err := t.Check(); err != nil {
				return err
			}
			if err := storage.Check(t.Epoch); err != nil {
				return err
			}
			fmt.Printf("%s writes item %d in epoch %d\n", t.Role, i, t.Epoch)
		}
		return nil
	}

	term := worker.Term{
		Election: events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"},
		Role:     "invoices", Epoch: 7, Leader: "pod-b", Identity: "worker-1",
	}
	grant := worker.NewGrant(context.Background(), term, worker.Now().Add(10*time.Second), time.Second)
	fmt.Println("error:", grant.Run(handler, nil))
	fmt.Println("an old writer:", storage.Check(6))
	// Output:
	// invoices writes item 1 in epoch 7
	// invoices writes item 2 in epoch 7
	// error: <nil>
	// an old writer: the request's epoch 6 is over: epoch 7 has acted
}

// A worker waits for the grant of its role, and works while it lasts, until the
// program is asked to stop.
func ExampleWorker() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	w, err := worker.New(nc, worker.Options{
		Election: events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"},
		Role:     "invoices",
		Handler: func(ctx context.Context, t worker.Term) error {
			for {
				if err := t.Check(); err != nil {
					return err
				}
				fmt.Println("working in epoch", t.Epoch)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err) // after worker.ErrOverrun the program must end at once
	}
}
