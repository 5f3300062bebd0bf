package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SignalContext returns a context that the first SIGINT, SIGTERM or SIGHUP
// cancels. The second one leaves at once, with the shell's code for the
// signal: whoever asks twice does not want to wait for a clean stop. SIGHUP
// stays ignored where it was ignored at the start, as under nohup. The
// function ends the watch for signals.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	// Two places: a second signal that comes while the first is handled must
	// not be lost.
	c := make(chan os.Signal, 2)
	signal.Notify(c, signals...)
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	go func() {
		select {
		case <-c:
			cancel()
		case <-done:
			return
		}
		select {
		case s := <-c:
			number, _ := s.(syscall.Signal)
			os.Exit(128 + int(number))
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(c)
		cancel()
		close(done)
	}
}
