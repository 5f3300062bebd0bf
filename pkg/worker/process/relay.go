//go:build unix

package process

import (
	"os"
	"os/signal"
	"syscall"
)

// Relay makes this process a wrapper around the command, as one that is PID 1
// in a container must be: from now on it passes the signals that it receives
// on to the command, each once.
//
// SIGINT, SIGTERM and SIGQUIT stop the command (see [Runner.Signal]); then stop
// is called with the signal, also when no command runs, and again for each
// further one: let the first end the context that Handle was given, and the
// second end the program, upon which the guard ends the command. SIGHUP is
// treated in the same way when the process has a terminal, since then it means
// that the terminal is gone. SIGHUP otherwise, SIGUSR1, SIGUSR2 and SIGWINCH
// are passed on and mean nothing to the wrapper.
//
// The returned function ends it.
func (r *Runner) Relay(stop func(os.Signal)) (cease func()) {
	hangup := false
	if tty, err := os.Open("/dev/tty"); err == nil {
		hangup = true
		tty.Close()
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT,
		syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			sig, ok := s.(syscall.Signal)
			if !ok {
				continue
			}
			if sig == syscall.SIGHUP && hangup {
				sig = syscall.SIGTERM
			}
			_ = r.Signal(sig) // there may be no command to pass it to
			if stops(sig) {
				stop(s)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// stops tells the signals that ask a command to stop.
func stops(sig syscall.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGQUIT
}
