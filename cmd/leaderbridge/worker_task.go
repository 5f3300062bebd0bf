package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// task is what a worker runs: a command or a WebAssembly module.
type task interface {
	// forTerm runs it for as long as the term lasts.
	forTerm(ctx context.Context, t worker.Term) error
	// forEvent makes a short run for one event.
	forEvent(ctx context.Context, t worker.Term, event []byte, publish func(ctx context.Context, event []byte) error) error
	// ended tells whether what forTerm returned means that it has ended by
	// itself, as long as nobody asked it to.
	ended(err error) bool
	// code is the exit code that belongs to what forTerm returned. Stopped
	// means that the worker ends because it was asked to.
	code(err error, stopped bool) int
	close()
}

// When a task that has ended is started again within its term.
const (
	restartOnFailure = "on-failure"
	restartAlways    = "always"
	restartNever     = "never"
)

// job runs a task for each term, and keeps how it ended.
type job struct {
	task    task
	restart string
	log     *slog.Logger

	mu    sync.Mutex
	last  error // how the latest run ended
	final bool  // it was not to be started again
}

// errEnded makes a task that ended well start again.
var errEnded = errors.New("the work has ended with code 0")

// handle is the worker's handler.
func (j *job) handle(ctx context.Context, t worker.Term) error {
	err := j.task.forTerm(ctx, t)
	byItself := ctx.Err() == nil && j.task.ended(err)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = err
	switch {
	case !byItself:
		return err
	case j.restart == restartNever, j.restart == restartOnFailure && err == nil:
		j.final = true
		if err != nil {
			j.log.Warn("the work has failed, and is not started again", "role", t.Role, "error", err)
		}
		return nil
	case err == nil:
		return errEnded
	}
	return err
}

// exit turns how the worker ended into the process' end.
func (j *job) exit(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		return err
	}
	if code := j.task.code(j.last, !j.final); code != 0 {
		return cli.Exit(code, nil)
	}
	return nil
}
