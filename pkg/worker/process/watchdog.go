//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog is the worker's hold on its guard process.
type watchdog struct {
	cmd     *exec.Cmd
	link    *link
	reports <-chan report // closed when the guard is gone
	dead    chan struct{} // closed when it has been waited for

	mu sync.Mutex // for sending

	retired atomic.Bool // it was left to itself
}

// readyTimeout bounds the start of a guard, which is that of this very
// program up to MaybeGuard.
const readyTimeout = 10 * time.Second

// guards holds the ids of running guards, so that [ReapOrphans] leaves them to
// whoever started them.
var guards struct {
	sync.Mutex
	pids map[int]bool
}

func startWatchdog() (*watchdog, error) {
	fail := func(err error) (*watchdog, error) {
		return nil, fmt.Errorf("starting the guard: %w: %w", ErrGuard, err)
	}
	path, err := guardPath()
	if err != nil {
		return fail(err)
	}
	theirs, ours, err := socketpair()
	if err != nil {
		return fail(err)
	}
	defer theirs.Close()
	l, err := newLink(ours)
	if err != nil {
		return fail(err)
	}
	cmd := &exec.Cmd{
		Path:       path,
		Args:       []string{guardName, guardFlag},
		Stderr:     os.Stderr,
		ExtraFiles: []*os.File{theirs},
		// A group of its own keeps the terminal's signals away. It stays in the
		// worker's session on purpose: when the worker dies, and the guard
		// happens to be stopped, the kernel continues the members of a group
		// that becomes orphaned so.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	guards.Lock()
	err = cmd.Start()
	if err == nil {
		if guards.pids == nil {
			guards.pids = map[int]bool{}
		}
		guards.pids[cmd.Process.Pid] = true
	}
	guards.Unlock()
	if err != nil {
		l.close()
		return fail(err)
	}
	reports := make(chan report, 8) // more than one run sends
	g := &watchdog{cmd: cmd, link: l, reports: reports, dead: make(chan struct{})}
	go g.receive(reports)
	select {
	case r, ok := <-reports:
		if ok && r.Ready {
			return g, nil
		}
		g.kill()
		return fail(fmt.Errorf("it ended at once; does main call process.MaybeGuard first?"))
	case <-time.After(readyTimeout):
		g.kill()
		return fail(fmt.Errorf("it was not ready after %v", readyTimeout))
	}
}

// receive reads reports until the guard is gone, and then collects it.
func (g *watchdog) receive(reports chan<- report) {
	defer close(g.dead)
	for {
		var r report
		if g.link.receive(&r) != nil {
			break
		}
		reports <- r
	}
	g.link.close()
	close(reports)
	_ = g.cmd.Wait()
	guards.Lock()
	delete(guards.pids, g.cmd.Process.Pid)
	guards.Unlock()
}

func (g *watchdog) send(o order, files ...*os.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.link.send(o, files...)
}

// unusable reports whether the guard cannot take another command.
func (g *watchdog) unusable() bool {
	select {
	case <-g.dead:
		return true
	default:
		return g.retired.Load()
	}
}

// hangUp lets the guard end by itself, once it has ended its command.
func (g *watchdog) hangUp() { _ = g.link.c.CloseWrite() }

// retire leaves the guard to itself: it ends once nothing of its command is
// left.
func (g *watchdog) retire() {
	g.retired.Store(true)
	g.hangUp()
}

// kill kills the guard, waits for its end, and returns the reports that had
// not been read.
func (g *watchdog) kill() []report {
	_ = g.cmd.Process.Kill()
	var unread []report
	for r := range g.reports {
		unread = append(unread, r)
	}
	<-g.dead
	return unread
}

// abandon does the guard's work when the guard does not: it kills the command's
// group, whatever else descends from the guard, and the guard, upon which the
// kernel kills the command in any case; and then what carries the mark of the
// run in its environment, for the guard may have been dead before. It returns
// what kill returns.
func (g *watchdog) abandon(leader proc, marker string) []report {
	if leader.isStill() { // otherwise the number may mean another group
		_ = unix.Kill(-leader.pid, syscall.SIGKILL)
	}
	if !g.unusable() {
		list, _ := descendants(g.cmd.Process.Pid)
		for _, p := range list {
			p.signal(syscall.SIGKILL)
		}
	}
	unread := g.kill()
	// One may have been created while we looked, and killed processes take a
	// moment to vanish.
	for range 20 {
		left := withMarker(marker)
		for _, p := range left {
			p.signal(syscall.SIGKILL)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(firstPause)
	}
	return unread
}
