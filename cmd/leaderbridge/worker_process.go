//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/pkg/worker/process"
)

// becomeGuard turns the process into a command's guard if it was started as
// one. It comes before everything else.
func becomeGuard() { process.MaybeGuard() }

// command is a command as a task.
type command struct {
	runner *process.Runner
	// stopped is closed by a signal that ends the work, and so the contexts of
	// all terms.
	stopped <-chan struct{}
	cease   func()
	reaped  chan struct{}
	stop    context.CancelFunc
}

// newCommand finds the command and starts its guard. cancel is called for a
// signal that ends the work.
func (w *workerCommand) newCommand(ctx context.Context, cancel context.CancelFunc, args []string, stdin io.Reader, stdout, stderr io.Writer) (task, error) {
	cmd := process.Command{
		Path: args[0], Args: args[1:], Prefix: w.command.prefix, Grace: w.command.grace, Stdout: stdout, Stderr: stderr,
		Time: w.event.timeout, Logger: w.log,
	}
	if f, ok := stdin.(*os.File); ok {
		cmd.Stdin = f
	}
	runner, err := process.New(cmd)
	if err != nil {
		return nil, cli.Exit(process.ExitCode(err), err)
	}
	reaping, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &command{runner: runner, stopped: ctx.Done(), reaped: make(chan struct{}), stop: stop}
	c.cease = runner.Relay(func(os.Signal) { cancel() })
	go func() {
		defer close(c.reaped)
		if os.Getpid() == 1 {
			process.ReapOrphans(reaping)
		}
	}()
	return c, nil
}

func (c *command) close() {
	c.cease()
	_ = c.runner.Close()
	c.stop()
	<-c.reaped
}

// forTerm does not return before ctx ends if a signal has reached the command:
// one that obeys at once has not ended by itself.
func (c *command) forTerm(ctx context.Context, t worker.Term) error {
	err := c.runner.Handle(ctx, t)
	select {
	case <-c.stopped:
		<-ctx.Done()
	default:
	}
	return err
}

func (c *command) forEvent(ctx context.Context, t worker.Term, event []byte, publish func(context.Context, []byte) error) error {
	return c.runner.HandleEvent(ctx, t, event, publish)
}

func (c *command) ended(err error) bool {
	var exit *process.ExitError
	var start *process.StartError
	return err == nil || errors.As(err, &exit) || errors.As(err, &start)
}

func (c *command) code(err error, stopped bool) int {
	if stopped {
		// A command that ended by the signal it was sent has done as it was
		// told; one that had been away for long is no fault of now.
		var exit *process.ExitError
		if !errors.As(err, &exit) || exit.Signal == syscall.SIGTERM || exit.Signal == syscall.SIGINT || exit.Signal == syscall.SIGQUIT {
			return 0
		}
	}
	return process.ExitCode(err)
}
