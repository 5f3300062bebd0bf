//go:build unix

package process

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// The guard is known by its whole argument list. The name differs from the
// worker's, so that "pkill leaderbridge" does not hit both.
const (
	guardName = "lb-guard"
	guardFlag = "--control-fd=3"
)

var guardInstalled atomic.Bool

// MaybeGuard turns this process into a guard if it was started as one, and
// does not return then. Call it first in main, before flags are parsed, files
// opened or goroutines started; in tests, first in TestMain. [New] refuses to
// work in a program that has not called it.
func MaybeGuard() {
	guardInstalled.Store(true)
	if len(os.Args) != 2 || os.Args[0] != guardName || os.Args[1] != guardFlag {
		return
	}
	os.Exit(guardMain())
}

func guardMain() int {
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	disguise()
	calm := hurry()
	l, err := newLink(os.NewFile(3, "control"))
	if err != nil {
		os.Stderr.WriteString("lb-guard: taking over the control socket: " + err.Error() + "\n")
		return 2
	}
	// Whatever stops a service by signalling all of its processes signals the
	// worker too, and the worker then tells the guard. The handlers are reset
	// in the command, other than ignored signals would be.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	g := &guard{link: l, calm: calm, adopts: adoptOrphans()}
	return g.loop()
}

// guard runs one command at a time. All of it belongs to the goroutine of loop.
type guard struct {
	link *link
	// calm gives a command the priority of the worker.
	calm func(pid int)
	// adopts is true when orphaned descendants become the guard's children.
	adopts bool
	// gone is true when the worker is.
	gone bool
	run  *run
}

// run is one command from its start until nothing of it is left.
type run struct {
	schedule
	id   uint64
	pid  int
	main *ending // how the command itself ended; nil while it runs
	// lapsed is the deadline that was a reason to stop it before any order.
	lapsed boottime.Instant
	// killAgain is when SIGKILL is sent again to what is left, and pause how
	// long after that once more. Both are zero before the first time.
	killAgain boottime.Instant
	pause     time.Duration
}

// The pause between two attempts to kill what is left grows from the first to
// the longest. Killed processes need time on a processor to vanish, of which a
// guard that hurries must not rob them.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 100 * time.Millisecond
)

func (g *guard) loop() int {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	orders := make(chan order)
	go g.receive(orders)
	due := make(chan struct{}, 1)
	alarm := boottime.AfterFunc(boottime.Now(), func() {
		select {
		case due <- struct{}{}:
		default:
		}
	})
	g.tell(report{Ready: true})
	for {
		if g.run != nil {
			alarm.Reset(g.advance())
		}
		if g.run == nil && g.gone {
			return 0
		}
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
				g.gone = true
				if g.run != nil {
					g.run.stop(boottime.Now())
				}
				continue
			}
			g.obey(o)
		case <-children:
		case <-due:
		}
	}
}

func (g *guard) receive(orders chan<- order) {
	defer close(orders)
	for {
		var o order
		if g.link.receive(&o) != nil {
			return
		}
		orders <- o
	}
}

// tell reports to the worker. One that does not listen is stopped or gone,
// which needs no treatment here.
func (g *guard) tell(r report) { _ = g.link.send(r) }

func (g *guard) obey(o order) {
	now := boottime.Now()
	if o.Start != nil {
		g.start(o, now)
		return
	}
	r := g.run
	if r == nil || r.id != o.Run {
		return
	}
	r.extend(o.Deadline)
	if o.Stop {
		r.stop(now)
	}
	switch {
	case o.Signal == 0:
	case stops(o.Signal):
		// The request to stop came from outside: pass it on as it is, and ask
		// no second time.
		r.stop(now)
		if !r.asked {
			r.asked = true
			r.ask(o.Signal)
		}
	case r.main == nil:
		_ = unix.Kill(r.pid, o.Signal)
	}
}

func (g *guard) start(o order, now boottime.Instant) {
	files := g.link.takeFiles()
	defer func() {
		for _, fd := range files {
			unix.Close(fd)
		}
	}()
	r := &run{id: o.Run, schedule: schedule{plan: o.Start.Plan, deadline: o.Deadline}}
	if s, _ := r.next(now); s != wait {
		g.tell(report{Run: o.Run, Exited: &ending{TooLate: true}})
		return
	}
	if g.run != nil || len(files) != standardFiles {
		g.tell(report{Run: o.Run, Exited: &ending{NotStarted: syscall.EBUSY}})
		return
	}
	attr := &syscall.ProcAttr{Dir: o.Start.Dir, Env: o.Start.Env, Sys: commandAttr()}
	for _, fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, err := syscall.ForkExec(o.Start.Path, o.Start.Args, attr) //nolint:gosec // the worker says what to run
	if err != nil {
		errno, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			errno = syscall.EINVAL
		}
		g.tell(report{Run: o.Run, Exited: &ending{NotStarted: errno}})
		return
	}
	g.calm(pid)
	r.pid = pid
	g.run = r
	g.tell(report{Run: o.Run, Started: pid})
}

// advance does what is due in the present run, and returns when to look again.
func (g *guard) advance() boottime.Instant {
	r := g.run
	if none := g.reap(); none {
		r.main.Lapsed = r.lapsed
		g.tell(report{Run: r.id, Exited: r.main})
		g.run = nil
		return boottime.Now()
	}
	now := boottime.Now()
	ordered := r.stopping != 0
	s, at := r.next(now)
	if s != wait && !ordered {
		r.lapsed = r.deadline
	}
	switch s {
	case wait:
	case ask:
		r.ask(syscall.SIGTERM)
	case kill:
		if now < r.killAgain {
			return r.killAgain
		}
		r.kill()
		if r.killAgain == 0 {
			g.tell(report{Run: r.id, Killing: true})
			r.pause = firstPause
		}
		r.killAgain = now.Add(r.pause)
		r.pause = min(2*r.pause, longestPause)
		return r.killAgain
	}
	return at
}

// reap collects every child that has ended. It reports true when none is left:
// as orphans become the guard's children, nothing descends from the command
// any more then.
func (g *guard) reap() (none bool) {
	r := g.run
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // ECHILD
			return true
		case pid == 0:
			return false
		case pid != r.pid:
			continue
		}
		r.main = &ending{Code: status.ExitStatus()}
		if status.Signaled() {
			r.main.Signal = status.Signal()
		}
		// Who looked after the leftovers is gone, so they are asked one by
		// one, even if the command had been asked before.
		r.stop(boottime.Now())
		r.asked = true
		if !g.adopts || !signalDescendants(syscall.SIGTERM) {
			// The guard cannot find its leftovers later, and the number of
			// the group may be given away once it is empty.
			_ = unix.Kill(-r.pid, syscall.SIGKILL)
		}
	}
}

// ask passes a request to stop to the command's process group. Descendants in
// other groups are the command's to stop: a database server, say, would be
// thrown off its course if they were asked over its head.
func (r *run) ask(sig syscall.Signal) {
	if r.main != nil {
		return // its leftovers have been asked
	}
	_ = unix.Kill(-r.pid, sig)
	_ = unix.Kill(-r.pid, syscall.SIGCONT) // one that is stopped cannot obey
}

// kill kills whatever is left. It may have to be called again: a process may
// have been created while it looked.
func (r *run) kill() {
	if r.main == nil {
		_ = unix.Kill(-r.pid, syscall.SIGKILL)
	}
	signalDescendants(syscall.SIGKILL)
}
