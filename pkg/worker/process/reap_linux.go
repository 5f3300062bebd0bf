package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReapOrphans collects ended processes that this process has inherited, until
// ctx ends. A program that is PID 1 of a container owes that to processes that
// "kubectl exec" and the like leave behind; orphans of the command itself are
// collected by the guard. On systems other than Linux it only waits.
//
// It collects every ended child except the guards of this package. A program
// that starts other children must not use it, or run under an init instead.
func ReapOrphans(ctx context.Context) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	for {
		reapOrphans()
		select {
		case <-children:
		case <-ctx.Done():
			return
		}
	}
}

func reapOrphans() {
	guards.Lock() // none may be started and missed meanwhile
	defer guards.Unlock()
	self := os.Getpid()
	for _, p := range listProcs() {
		if p.parent == self && p.state == 'Z' && !guards.pids[p.pid] {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		}
	}
}
