package procenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "leaderbridge-test-")
	if err != nil {
		return "", err
	}
	return build(dir, "cmd/leaderbridge")
})

// build compiles a command of this repository into a folder.
func build(dir, command string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	path := filepath.Join(dir, filepath.Base(command))
	// The same flags as the tests themselves, so that nothing is compiled twice.
	cmd := exec.Command("go", "build", "-race", "-o", path, "./"+command)
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	return path, nil
}

// Build compiles another command of this repository, named by its folder below
// the root, and returns its path. It is gone when the test ends.
func Build(tb testing.TB, command string) string {
	tb.Helper()
	path, err := build(tb.TempDir(), command)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Binary returns the path of the command.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := binary()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Clean removes the command. Call it at the end of TestMain.
func Clean() {
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}

// Process is a running command. Its methods may be called from any goroutine.
type Process struct {
	tb   testing.TB
	name string
	cmd  *exec.Cmd
	out  buffer
	errs buffer
	done chan struct{}
	err  error
}

// Start runs leaderbridge with the arguments. The process is killed at the end
// of the test if it still runs, and its output is shown if the test failed.
func Start(tb testing.TB, name string, env []string, args ...string) *Process {
	tb.Helper()
	return StartProgram(tb, name, env, Binary(tb), args...)
}

// StartProgram runs another program in the same way.
func StartProgram(tb testing.TB, name string, env []string, path string, args ...string) *Process {
	tb.Helper()
	p := &Process{tb: tb, name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(clean(os.Environ()), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	tb.Cleanup(func() {
		p.Signal(syscall.SIGCONT)
		p.Signal(syscall.SIGKILL)
		<-p.done
		if tb.Failed() {
			tb.Logf("%s wrote:\n%s%s", name, p.out.String(), p.errs.String())
		}
	})
	return p
}

// clean drops variables that would change what the command does.
func clean(env []string) []string {
	kept := env[:0:0]
	for _, v := range env {
		if !strings.HasPrefix(v, "LEADERBRIDGE_") && !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "OTEL_") && !strings.HasPrefix(v, "KUBECONFIG=") {
			kept = append(kept, v)
		}
	}
	return kept
}

// Name returns the name given to Start.
func (p *Process) Name() string { return p.name }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. A process that has ended is left alone.
func (p *Process) Signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("signal %s: %v", p.name, err)
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns the exit code, or -1 after a signal.
func (p *Process) Wait(limit time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.tb.Fatalf("%s has not ended within %s", p.name, limit)
		return 0
	}
}

// Stdout returns what the process has written to standard output so far.
func (p *Process) Stdout() string { return p.out.String() }

// Stderr returns what the process has written to standard error so far.
func (p *Process) Stderr() string { return p.errs.String() }

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
