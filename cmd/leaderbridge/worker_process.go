//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/pkg/worker/process"
)

// becomeGuard turns the process into a command's guard if it was started as
// one. It comes before everything else.
func becomeGuard() { process.MaybeGuard() }

// When a command that has ended is started again within its term.
const (
	restartOnFailure = "on-failure"
	restartAlways    = "always"
	restartNever     = "never"
)

// commandWork is a command as the work of a term.
type commandWork struct {
	restart string
	grace   time.Duration
	prefix  string
}

func (c *commandWork) add(flags *pflag.FlagSet) {
	cli.ChoiceVarP(flags, &c.restart, "restart", "", restartOnFailure, "when a command that has ended is started again: on-failure, always or never; otherwise the worker ends with it",
		restartOnFailure, restartAlways, restartNever)
	flags.DurationVar(&c.grace, "grace", 10*time.Second, "how long the command may take to end after SIGTERM; when a grant lapses at most a third of it")
	flags.StringVar(&c.prefix, "output-prefix", "", "`text` before each line that the command writes; empty passes its output through untouched")
}

func (c *commandWork) check() error {
	if c.grace <= 0 {
		return fmt.Errorf("--grace %s must be above zero", c.grace)
	}
	return nil
}

// job runs the command, and keeps how it ended.
type job struct {
	restart string
	runner  *process.Runner
	cease   func()
	reaped  chan struct{}
	stop    context.CancelFunc

	mu    sync.Mutex
	last  error // how the latest run ended
	final bool  // it was not to be started again
}

// prepare finds the command and starts its guard. cancel is called for a signal
// that ends the work.
func (c *commandWork) prepare(ctx context.Context, cancel context.CancelFunc, args []string, stdin io.Reader, stdout, stderr io.Writer) (*job, error) {
	cmd := process.Command{Path: args[0], Args: args[1:], Prefix: c.prefix, Grace: c.grace, Stdout: stdout, Stderr: stderr}
	if f, ok := stdin.(*os.File); ok {
		cmd.Stdin = f
	}
	runner, err := process.New(cmd)
	if err != nil {
		return nil, cli.Exit(process.ExitCode(err), err)
	}
	reaping, stop := context.WithCancel(context.WithoutCancel(ctx))
	j := &job{restart: c.restart, runner: runner, reaped: make(chan struct{}), stop: stop}
	j.cease = runner.Relay(func(os.Signal) { cancel() })
	go func() {
		defer close(j.reaped)
		if os.Getpid() == 1 {
			process.ReapOrphans(reaping)
		}
	}()
	return j, nil
}

func (j *job) close() {
	j.cease()
	_ = j.runner.Close()
	j.stop()
	<-j.reaped
}

// errEnded makes a command that ended well start again.
var errEnded = errors.New("the command has ended with code 0")

// handle is the worker's handler.
func (j *job) handle(ctx context.Context, t worker.Term) error {
	err := j.runner.Handle(ctx, t)
	var exit *process.ExitError
	var start *process.StartError
	byItself := ctx.Err() == nil && (err == nil || errors.As(err, &exit) || errors.As(err, &start))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = err
	switch {
	case !byItself:
		return err
	case j.restart == restartNever, j.restart == restartOnFailure && err == nil:
		j.final = true
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
	code := process.ExitCode(j.last)
	if !j.final {
		// Stopped in the middle. A command that ended by the signal it was sent
		// has done as it was told; one that had been away for long is no fault
		// of now.
		var exit *process.ExitError
		if !errors.As(j.last, &exit) || exit.Signal == syscall.SIGTERM || exit.Signal == syscall.SIGINT || exit.Signal == syscall.SIGQUIT {
			code = 0
		}
	}
	if code == 0 {
		return nil
	}
	return cli.Exit(code, nil)
}
