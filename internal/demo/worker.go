package demo

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// role is what the workers compete for.
const role = "demo"

// workplace is where two workers compete for one role. Each is a Go function
// that runs while the leader's grant lasts.
type workplace struct {
	show *show
	wait sync.WaitGroup
	log  *os.File

	mu      sync.Mutex
	stopped time.Time       // when the last of them stopped
	idle    []time.Duration // how long nobody worked, each time
	failed  error
}

// open starts the workers, whose log goes to a file in dir. They end with ctx;
// close waits for that.
func (w *workplace) open(ctx context.Context, dir string) (err error) {
	if w.log, err = os.Create(logFile(dir, "workers")); err != nil {
		return err
	}
	for _, name := range []string{"delta", "echo"} {
		run, err := worker.New(w.show.conn.Conn, worker.Options{
			Election: w.show.election, Role: role, Identity: name, Log: w.show.logAt,
			Handler: func(ctx context.Context, t worker.Term) error { return w.work(ctx, name, t) },
			Logger:  slog.New(slog.NewTextHandler(w.log, nil)),
		})
		if err != nil {
			return err
		}
		w.wait.Go(func() {
			if err := run.Run(ctx); err != nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.failed = errors.Join(w.failed, err)
			}
		})
	}
	return nil
}

func (w *workplace) close() error {
	w.wait.Wait()
	if w.log == nil {
		return w.failed
	}
	return errors.Join(w.failed, w.log.Close())
}

// work stands in for what a real worker would do: it lasts as long as it may.
func (w *workplace) work(ctx context.Context, name string, t worker.Term) error {
	w.mu.Lock()
	if !w.stopped.IsZero() {
		w.idle = append(w.idle, time.Since(w.stopped))
	}
	w.mu.Unlock()
	w.show.note(t.Epoch, "worker starts", name, "granted by "+t.Leader)
	<-ctx.Done()
	w.mu.Lock()
	w.stopped = time.Now()
	w.mu.Unlock()
	w.show.note(t.Epoch, "worker stops", name, "")
	return ctx.Err()
}
