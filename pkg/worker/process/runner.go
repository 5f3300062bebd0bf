//go:build unix

package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// Command says what to run and how.
type Command struct {
	// Path is the program: a path, or a name to look for in PATH.
	Path string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is its environment, "key=value"; the worker's own when nil. The
	// term's variables (see worker.Term.Environ) and LEADERBRIDGE_RUN, which is
	// different in each run, are added in any case.
	Env []string
	// Dir is its working directory; the worker's own when empty.
	Dir string

	// Stdin is its standard input; /dev/null when nil. A terminal works: the
	// command is in a session of its own, so the terminal's signals, such as
	// Ctrl-C, do not reach it, and reading does not stop it.
	Stdin *os.File
	// Stdout and Stderr receive its output; nil means the worker's own. Files
	// are handed to the command as they are; anything else is fed by a pipe.
	Stdout, Stderr io.Writer
	// Prefix, when not empty, is put before each line of output.
	Prefix string

	// Grace is how long the command may take to end after SIGTERM before it is
	// killed; 10 s when zero. When a grant lapses there is less time: then at
	// most a third of the grant is kept for it. A longer grace lets the
	// command finish what it does, and delays its successor.
	Grace time.Duration

	// Time limits one run for an event, see [Runner.HandleEvent]; 10 s when
	// zero. A run for a term lasts as long as the term.
	Time time.Duration
	// Logger gets the lines of a run for an event that are no events; nil for
	// nobody.
	Logger *slog.Logger
}

const (
	defaultGrace = 10 * time.Second
	defaultTime  = 10 * time.Second
)

// Runner runs a command, one term after the other. Its methods are safe for
// concurrent use. It must be closed.
type Runner struct {
	cmd  Command
	path string

	// busy is held during a run: there is never a second one beside it.
	busy sync.Mutex

	mu     sync.Mutex
	guard  *watchdog // nil until needed, and after it failed
	runID  uint64
	active bool
	closed bool
}

// New returns a Runner for the command, and starts the guard, so that a term
// does not have to wait for it. It fails when the program does not exist, and
// when [MaybeGuard] has not been called.
func New(c Command) (*Runner, error) {
	if !guardInstalled.Load() {
		return nil, errors.New("preparing to run a command: this program has no guard; call process.MaybeGuard first in main")
	}
	path, err := exec.LookPath(c.Path)
	if err != nil {
		return nil, &StartError{Path: c.Path, Err: err}
	}
	if c.Grace < 0 || c.Time < 0 {
		return nil, fmt.Errorf("preparing to run a command: the grace of %v or the time limit of %v is negative", c.Grace, c.Time)
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Time == 0 {
		c.Time = defaultTime
	}
	r := &Runner{cmd: c, path: path}
	if r.guard, err = startWatchdog(); err != nil {
		return nil, err
	}
	return r, nil
}

// Close ends the guard. A command that runs is stopped as if its context had
// ended.
func (r *Runner) Close() error {
	r.mu.Lock()
	r.closed = true
	g := r.guard
	r.guard = nil
	r.mu.Unlock()
	if g != nil {
		g.hangUp()
		<-g.dead
	}
	return nil
}

// ErrNotRunning is returned by [Runner.Signal] when there is no command.
var ErrNotRunning = errors.New("no command is running")

// Signal passes a signal on to the command. SIGTERM, SIGINT and SIGQUIT go to
// its whole process group and begin its stop: it is not asked again, and it is
// killed after the grace. Any other signal goes to the command alone.
func (r *Runner) Signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.active || r.guard == nil {
		return ErrNotRunning
	}
	if err := r.guard.send(order{Run: r.runID, Signal: sig}); err != nil {
		return fmt.Errorf("passing signal %v on: %w: %w", sig, ErrGuard, err)
	}
	return nil
}

// begin makes a guard ready for a new run.
func (r *Runner) begin() (*watchdog, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, 0, errors.New("running a command: the runner is closed")
	}
	if r.guard != nil && r.guard.unusable() {
		r.guard = nil
	}
	if r.guard == nil {
		g, err := startWatchdog()
		if err != nil {
			return nil, 0, err
		}
		r.guard = g
	}
	r.runID++
	r.active = true
	return r.guard, r.runID, nil
}

func (r *Runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = false
}

// Handle is a worker.Handler: it runs the command for as long as the term
// lasts, and returns when nothing of it is left, at the latest at the term's
// deadline. It returns nil when the command exited with code 0, and otherwise
// an *[ExitError], also when it was asked to stop; a *[StartError]; or an error
// that matches [ErrGuard].
//
// The command must stay in the foreground: what it leaves behind when it exits
// is ended too.
//
// A command that the guard asked to stop since the grant was about to lapse has
// not ended by itself, whatever its code: Handle then returns when ctx ends, at
// the deadline at the latest, and if the grant is renewed after all it starts the
// command again.
func (r *Runner) Handle(ctx context.Context, t worker.Term) error {
	for {
		err := r.run(ctx, t, streams{in: r.cmd.Stdin, out: r.cmd.Stdout, prefix: r.cmd.Prefix})
		if !errors.Is(err, errRenewed) {
			return err
		}
	}
}

// streams are what a run reads and writes, but for its standard error.
type streams struct {
	in     *os.File  // /dev/null when nil
	out    io.Writer // the worker's own when nil
	prefix string    // of each line in out
}

func (r *Runner) run(ctx context.Context, t worker.Term, std streams) error {
	if !r.busy.TryLock() {
		return errors.New("running a command: it is running already")
	}
	defer r.busy.Unlock()
	if err := t.Check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g, id, err := r.begin()
	if err != nil {
		return err
	}
	defer r.end()
	var out output
	defer out.drain()
	marker := "LEADERBRIDGE_RUN=" + rand.Text()
	deadline, changed := t.Watch()
	s := schedule{plan: newPlan(boottime.Until(deadline), r.cmd.Grace), deadline: deadline}
	if err := r.launch(g, id, &out, std, s, append(t.Environ(), marker)); err != nil {
		g.abandon(proc{}, marker)
		return err
	}
	out.handedOver()
	return (&watch{g: g, id: id, path: r.path, term: t, schedule: s, marker: marker}).wait(ctx, changed)
}

func (r *Runner) launch(g *watchdog, id uint64, out *output, std streams, s schedule, env []string) error {
	fail := func(err error) error { return &StartError{Path: r.path, Err: err} }
	stdin := std.in
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fail(err)
		}
		defer null.Close()
		stdin = null
	}
	stdout, err := out.add(std.out, os.Stdout, std.prefix)
	if err != nil {
		return fail(err)
	}
	stderr, err := out.add(r.cmd.Stderr, os.Stderr, r.cmd.Prefix)
	if err != nil {
		return fail(err)
	}
	dir := r.cmd.Dir
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return fail(err)
		}
	}
	base := r.cmd.Env
	if base == nil {
		base = os.Environ()
	}
	err = g.send(order{Run: id, Deadline: s.deadline, Start: &launch{
		Path: r.path,
		Args: append([]string{r.cmd.Path}, r.cmd.Args...),
		Env:  withEnv(base, env),
		Dir:  dir,
		Plan: s.plan,
	}}, stdin, stdout, stderr)
	if err != nil {
		return fmt.Errorf("starting %s: %w: %w", r.path, ErrGuard, err)
	}
	return nil
}

// withEnv returns base with the given entries, which replace those of the same
// name.
func withEnv(base, set []string) []string {
	c := exec.Cmd{Env: append(append([]string{}, base...), set...)}
	return c.Environ() // the last entry of each name
}

// watch follows one run from the worker's side.
type watch struct {
	schedule
	g      *watchdog
	id     uint64
	path   string
	term   worker.Term
	marker string
	// leader is the command's own process; zero until the guard has told.
	leader proc
	// killing is true when the guard has begun to kill.
	killing bool
}

// wait passes the term's news on to the guard until the guard says that
// nothing of the command is left. The guard does the stopping; the worker acts
// itself only when the guard is gone, or has not done it when there is hardly
// time left.
func (w *watch) wait(ctx context.Context, changed <-chan struct{}) error {
	overdue := make(chan struct{}, 1)
	alarm := boottime.AfterFunc(w.due(), func() {
		select {
		case overdue <- struct{}{}:
		default:
		}
	})
	defer alarm.Stop()
	stop := ctx.Done()
	for {
		select {
		case r, ok := <-w.g.reports:
			over, err := w.hear(r, ok)
			if over && r.Exited != nil && r.Exited.Lapsed != 0 {
				return w.lapse(ctx, r.Exited.Lapsed, err)
			}
			if over {
				return err
			}
			alarm.Reset(w.due())
		case <-stop:
			stop = nil
			_ = w.g.send(order{Run: w.id, Stop: true})
		case <-changed:
			var deadline boottime.Instant
			deadline, changed = w.term.Watch()
			if w.term.Check() != nil {
				changed = nil // its context has ended too
				continue
			}
			w.extend(deadline)
			alarm.Reset(w.due())
			_ = w.g.send(order{Run: w.id, Deadline: deadline})
		case <-overdue:
			if boottime.Now() < w.due() {
				continue // moved at the last moment
			}
			return w.overdue()
		}
	}
}

// errRenewed ends a run that the guard stopped although the term goes on.
var errRenewed = errors.New("the grant was renewed when the command had been asked to stop already")

// lapse waits until it is clear whether the guard was right to stop the command:
// the grant lapses, of which the worker is told later than the command since it
// needs no time to stop, or it is renewed after all. How the command ended is
// only of interest to those who know which. It takes until the deadline at most,
// also with a context that is not the grant's.
func (w *watch) lapse(ctx context.Context, lapsed boottime.Instant, err error) error {
	over := make(chan struct{})
	alarm := boottime.AfterFunc(lapsed, func() { close(over) })
	defer alarm.Stop()
	for {
		deadline, changed := w.term.Watch()
		switch ended := w.term.Check() != nil; {
		case ended:
			changed = nil // its context ends too
		case deadline > lapsed && ctx.Err() == nil:
			return errRenewed
		}
		select {
		case <-ctx.Done():
			return err
		case <-over:
			return err
		case <-changed:
		}
	}
}

// due is when the worker gives up waiting for the guard. One that has sent
// SIGKILL already has done what can be done.
func (w *watch) due() boottime.Instant {
	if w.killing {
		return w.deadline.Add(-w.Margin / 10)
	}
	return w.last()
}

// hear takes in a report, or that there will be none any more. It reports
// whether the run is over.
func (w *watch) hear(r report, ok bool) (over bool, err error) {
	switch {
	case !ok:
		w.g.abandon(w.leader, w.marker)
		return true, fmt.Errorf("running a command: %w: it was killed, and the command with it", ErrGuard)
	case r.Run != w.id:
	case r.Started != 0:
		w.leader, _ = readProc(r.Started)
	case r.Killing:
		w.killing = true
	case r.Exited != nil:
		return true, w.result(r.Exited)
	}
	return false, nil
}

// overdue acts when the guard should have ended the command by now. A report
// of that may wait unread, if it is the worker that was stopped.
func (w *watch) overdue() error {
	if w.killing {
		w.g.retire()
		return ErrLeft
	}
	for _, r := range w.g.abandon(w.leader, w.marker) {
		if r.Run == w.id && r.Exited != nil {
			return w.result(r.Exited)
		}
	}
	return fmt.Errorf("running a command: %w: it did not end the command in time; the command was killed", ErrGuard)
}

func (w *watch) result(e *ending) error {
	switch {
	case e.TooLate:
		if err := w.term.Check(); err != nil {
			return err
		}
		return errors.New("running a command: too little is left of the grant to start it")
	case e.NotStarted != 0:
		return &StartError{Path: w.path, Err: e.NotStarted}
	case e.Code != 0 || e.Signal != 0:
		return &ExitError{Code: e.Code, Signal: e.Signal}
	default:
		return nil
	}
}
