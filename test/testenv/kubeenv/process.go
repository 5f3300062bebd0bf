package kubeenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// launcher is the program that envtest starts in place of a server. It notes
// its process id, which envtest keeps to itself, and becomes the server. A
// companion ends the server when the test binary is gone without having
// stopped it, as after a panic or at the test's time limit.
const launcher = `#!/bin/sh
echo $$ >"$0.pid"
(
	while kill -0 $PPID && kill -0 $$; do sleep 1; done
	kill -9 $$
) </dev/null >/dev/null 2>&1 &
exec '%s' "$@"
`

// process is a server that was started through a launcher.
type process struct{ launcher string }

// newProcess writes the launcher for the named server to dir.
func newProcess(dir, assets, name string) (process, error) {
	p := process{launcher: filepath.Join(dir, name)}
	binary := filepath.Join(assets, name)
	if strings.Contains(binary, "'") {
		return process{}, fmt.Errorf("run %s: its path must not contain a quote", binary)
	}
	text := fmt.Sprintf(launcher, binary)
	if err := os.WriteFile(p.launcher, []byte(text), 0o700); err != nil { // #nosec G306 -- it is a program
		return process{}, err
	}
	return p, nil
}

// signal sends a signal to the server. It returns syscall.ESRCH when the
// server is not running.
func (p process) signal(sig syscall.Signal) error {
	text, err := os.ReadFile(p.launcher + ".pid")
	if errors.Is(err, os.ErrNotExist) {
		return syscall.ESRCH
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read the process id of %s: %w", filepath.Base(p.launcher), err)
	}
	return syscall.Kill(pid, sig)
}

// kill sends SIGKILL and does not wait. A server that is not running is fine.
func (p process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", filepath.Base(p.launcher), err)
	}
	return nil
}

// Kill ends the API server with SIGKILL and returns when it is gone. etcd and
// the data stay. It is fine if the server is not running.
func (s *APIServer) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.api.kill(); err != nil {
		tb.Fatal(err)
	}
	testenv.Eventually(tb, startTimeout, func() error {
		if err := s.api.signal(0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("the API server is still there after SIGKILL: %w", err)
		}
		return nil
	})
}

// Restart kills the API server if it is running, and starts it again on the
// same port and with the same data. It returns when the server answers.
// Credentials stay valid.
func (s *APIServer) Restart(tb testing.TB) {
	tb.Helper()
	s.Kill(tb)
	start := time.Now()
	if err := s.plane.APIServer.Start(); err != nil {
		tb.Fatalf("start the API server again: %v after %s\n%s", err, time.Since(start).Round(time.Second), s.logTail())
	}
}

// Pause stops the API server with SIGSTOP: connections stay open and new ones
// are accepted by the kernel, but nothing is answered. Resume ends it.
func (s *APIServer) Pause(tb testing.TB) {
	tb.Helper()
	if err := s.api.signal(syscall.SIGSTOP); err != nil {
		tb.Fatalf("pause the API server: %v", err)
	}
}

// Resume ends a Pause. The server then answers what it received meanwhile.
func (s *APIServer) Resume(tb testing.TB) {
	tb.Helper()
	if err := s.api.signal(syscall.SIGCONT); err != nil {
		tb.Fatalf("resume the API server: %v", err)
	}
}
