//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

func shell(script string) Command { return Command{Path: "sh", Args: []string{"-c", script}} }

func TestHandleReturnsHowTheCommandEnded(t *testing.T) {
	for _, c := range []struct {
		script string
		want   ExitError
		code   int
	}{
		{script: "exit 0"},
		{script: "exit 3", want: ExitError{Code: 3}, code: 3},
		{script: "exit 255", want: ExitError{Code: 255}, code: 255},
		{script: "kill -KILL $$", want: ExitError{Code: -1, Signal: syscall.SIGKILL}, code: 137},
		{script: "kill -USR1 $$", want: ExitError{Code: -1, Signal: syscall.SIGUSR1}, code: 128 + int(syscall.SIGUSR1)},
	} {
		r := newRunner(t, shell(c.script))
		err := newGrant(t).Run(r.Handle, nil)
		var got *ExitError
		if errors.As(err, &got); c.code == 0 && err != nil || c.code != 0 && (got == nil || *got != c.want) {
			t.Errorf("%s: %v", c.script, err)
		}
		if got := ExitCode(err); got != c.code {
			t.Errorf("%s: exit code %d, want %d", c.script, got, c.code)
		}
	}
}

func TestTheCommandGetsTheTermInItsEnvironment(t *testing.T) {
	t.Setenv("LEADERBRIDGE_EPOCH", "1") // of a worker that is itself run by one
	t.Setenv("KEPT", "yes")
	var out bytes.Buffer
	c := shell("env; pwd")
	c.Dir = t.TempDir()
	c.Stdout = &out
	if err := newGrant(t).Run(newRunner(t, c).Handle, nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for _, want := range append(testTerm().Environ(), "KEPT=yes", c.Dir) {
		if n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l != want })); n != 1 {
			t.Errorf("%q appears %d times in\n%s", want, n, out.String())
		}
	}
	if strings.Contains(out.String(), "LEADERBRIDGE_EPOCH=1\n") || !strings.Contains(out.String(), "LEADERBRIDGE_RUN=") {
		t.Errorf("environment:\n%s", out.String())
	}
}

func TestAMissingProgramIsReportedEarly(t *testing.T) {
	_, err := New(Command{Path: "no-such-program"})
	var start *StartError
	if !errors.As(err, &start) || ExitCode(err) != 127 {
		t.Errorf("new = %v, code %d", err, ExitCode(err))
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = New(Command{Path: plain}); !errors.As(err, &start) || ExitCode(err) != 126 {
		t.Errorf("new = %v, code %d", err, ExitCode(err))
	}
	// What the kernel refuses is reported by the run.
	if err := os.Chmod(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, Command{Path: plain})
	for range 2 { // and the guard is good for another try
		err = newGrant(t).Run(r.Handle, nil)
		if !errors.As(err, &start) || !errors.Is(err, syscall.ENOEXEC) || ExitCode(err) != 126 {
			t.Errorf("handle = %v, code %d", err, ExitCode(err))
		}
	}
}

func TestAProgramWithoutMaybeGuardIsToldSo(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LB_TEST_PART=no-guard")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "call process.MaybeGuard first in main") {
		t.Errorf("new says %q, %v", out, err)
	}
}

func TestOutputIsPassedThroughOrPrefixed(t *testing.T) {
	var out, errOut bytes.Buffer
	c := shell(`printf 'one\ntwo'; echo three >&2`)
	c.Stdout, c.Stderr, c.Prefix = &out, &errOut, "sync | "
	if err := newGrant(t).Run(newRunner(t, c).Handle, nil); err != nil {
		t.Fatal(err)
	}
	if out.String() != "sync | one\nsync | two\n" || errOut.String() != "sync | three\n" {
		t.Errorf("prefixed: %q, %q", out.String(), errOut.String())
	}

	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c = shell(`test -f /proc/self/fd/1 && head -c 3000000 /dev/zero`)
	c.Stdout = f
	if err := newGrant(t).Run(newRunner(t, c).Handle, nil); err != nil {
		t.Fatal(err)
	}
	if st, err := f.Stat(); err != nil || st.Size() != 3_000_000 {
		t.Errorf("the file holds %d bytes, %v", st.Size(), err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestAReaderThatFailsDoesNotHoldUpTheCommand(t *testing.T) {
	c := shell(`head -c 3000000 /dev/zero`)
	c.Stdout = brokenWriter{}
	if err := newGrant(t).Run(newRunner(t, c).Handle, nil); err != nil {
		t.Error(err)
	}
}

func TestStandardInput(t *testing.T) {
	var out bytes.Buffer
	c := shell("cat")
	c.Stdout = &out
	if err := newGrant(t).Run(newRunner(t, c).Handle, nil); err != nil || out.Len() != 0 {
		t.Errorf("without: %v, %q", err, out.String())
	}
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := io.WriteString(w, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	c.Stdin = in
	if err := newGrant(t).Run(newRunner(t, c).Handle, nil); err != nil || out.String() != "hello" {
		t.Errorf("with: %v, %q", err, out.String())
	}
}

// Field case 91: the end of the term is enough; it need not be the process'.
func TestTheContextEndsTheCommandWithinItsGrace(t *testing.T) {
	record := t.TempDir() + "/record"
	ctx, cancel := context.WithCancel(t.Context())
	g := worker.NewGrant(ctx, testTerm(), boottime.Now().Add(time.Minute), 0)
	r := newRunner(t, commandOf(t, "-record", record, "-tidy", "100ms"))
	done := make(chan error, 1)
	go func() { done <- g.Run(r.Handle, nil) }()
	begun(t, record, 1)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("a command that tidied up and exited with 0: %v", err)
	}
	if all := readRecord(t, record); all[len(all)-1].what != "end" {
		t.Errorf("it ended with %q", all[len(all)-1].what)
	}
}

func TestAStubbornCommandIsKilledAfterItsGrace(t *testing.T) {
	record := t.TempDir() + "/record"
	g := newGrant(t)
	c := commandOf(t, "-record", record, "-stubborn")
	c.Grace = 400 * time.Millisecond
	r := newRunner(t, c)
	done := make(chan error, 1)
	go func() { done <- g.Run(r.Handle, nil) }()
	begun(t, record, 1)
	asked := boottime.Now()
	g.Drain(errors.New("the leader steps down"))
	err := <-done
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Signal != syscall.SIGKILL {
		t.Errorf("handle = %v", err)
	}
	if lived := boottime.Now().Sub(asked); lived < c.Grace || lived > 20*time.Second {
		t.Errorf("it lived for %v after it was asked, want its grace", lived)
	}
}

func TestWhatTheCommandLeavesIsEnded(t *testing.T) {
	record := t.TempDir() + "/record"
	c := commandOf(t, "-record", record, "-tree", "-leave", "500ms", "-code", "4")
	c.Grace = 5 * time.Second
	r := newRunner(t, c)
	err := newGrant(t).Run(r.Handle, nil)
	end := boottime.Now()
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 4 {
		t.Errorf("handle = %v", err)
	}
	time.Sleep(50 * time.Millisecond) // long enough for many units of work
	for _, e := range readRecord(t, record) {
		if e.at > end {
			t.Fatalf("process %d: %q %v after Handle returned", e.pid, e.what, e.at.Sub(end))
		}
	}
}

// Field case 94: after a lost and regained grant exactly one copy runs.
func TestTermsFollowOneAnotherWithOneGuard(t *testing.T) {
	record := t.TempDir() + "/record"
	r := newRunner(t, commandOf(t, "-record", record))
	guard := r.guard.cmd.Process.Pid
	var spans []entry
	for n := range 3 {
		g := newGrant(t)
		done := make(chan error, 1)
		go func() { done <- g.Run(r.Handle, nil) }()
		begun(t, record, n+1)
		if err := r.Handle(t.Context(), g.Term()); err == nil || !strings.Contains(err.Error(), "running already") {
			t.Errorf("a second run beside the first: %v", err)
		}
		g.Drain(nil)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if r.guard.cmd.Process.Pid != guard {
			t.Error("the guard was replaced without need")
		}
	}
	for _, e := range readRecord(t, record) {
		if len(spans) == 0 || spans[len(spans)-1].pid != e.pid {
			spans = append(spans, e)
		}
	}
	if len(spans) != 3 {
		t.Errorf("processes took turns %d times, want 3 times one after the other: %v", len(spans), spans)
	}
}

// Field case 41, with a process: a crash is tried again with growing pauses,
// and then the grant is given back.
func TestACrashingCommandIsRestartedAndThenGivenUp(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	c := shell("echo run; kill -SEGV $$")
	c.Stdout = writerFunc(func(b []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return out.Write(b) })
	r := newRunner(t, c)
	h := worker.Restart{First: 10 * time.Millisecond, Failures: 3, CoolDown: time.Minute}.Handler(r.Handle)
	err := newGrant(t).Run(h, nil)
	var back *worker.GiveBackError
	var exit *ExitError
	if !errors.As(err, &back) || !errors.As(err, &exit) || exit.Signal != syscall.SIGSEGV || back.CoolDown != time.Minute {
		t.Errorf("run = %v", err)
	}
	if out.String() != "run\nrun\nrun\n" {
		t.Errorf("output %q, want three runs", out.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestATermThatIsOverStartsNothing(t *testing.T) {
	record := t.TempDir() + "/record"
	r := newRunner(t, commandOf(t, "-record", record))
	g := newGrant(t)
	g.End(nil)
	if err := r.Handle(t.Context(), g.Term()); !errors.Is(err, worker.ErrTermOver) {
		t.Errorf("an ended term: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Handle(ctx, newGrant(t).Term()); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if all := readRecord(t, record); len(all) != 0 {
		t.Errorf("something ran: %v", all)
	}
}

func TestAClosedRunner(t *testing.T) {
	r := newRunner(t, shell("true"))
	r.Close()
	if err := newGrant(t).Run(r.Handle, nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("handle = %v", err)
	}
	if err := r.Signal(syscall.SIGHUP); !errors.Is(err, ErrNotRunning) {
		t.Errorf("signal = %v", err)
	}
}

func TestClosingStopsTheCommand(t *testing.T) {
	record := t.TempDir() + "/record"
	r := newRunner(t, commandOf(t, "-record", record))
	done := make(chan error, 1)
	go func() { done <- newGrant(t).Run(r.Handle, nil) }()
	begun(t, record, 1)
	r.Close()
	if err := <-done; err != nil {
		t.Errorf("handle = %v", err)
	}
}

func TestASignalToStopIsPassedOnOnce(t *testing.T) {
	record := t.TempDir() + "/record"
	g := newGrant(t)
	c := commandOf(t, "-record", record, "-tidy", "200ms")
	c.Grace = 10 * time.Second
	r := newRunner(t, c)
	done := make(chan error, 1)
	go func() { done <- g.Run(r.Handle, nil) }()
	begun(t, record, 1)
	for range 3 {
		if err := r.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	g.Drain(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
	got := map[string]int{}
	for _, e := range readRecord(t, record) {
		got[e.what]++
	}
	if got["got interrupt"] != 1 || got["got terminated"] != 0 || got["end"] != 1 {
		t.Errorf("the command saw %v", got)
	}
}

func TestAFailedGuardIsReplaced(t *testing.T) {
	r := newRunner(t, shell("sleep 60"))
	g := newGrant(t)
	done := make(chan error, 1)
	go func() { done <- g.Run(r.Handle, nil) }()
	eventually(t, 10*time.Second, "the command runs", func() bool { return r.Signal(syscall.SIGWINCH) == nil })
	if err := r.guard.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrGuard) {
		t.Fatalf("handle = %v", err)
	}
	r.cmd.Args = []string{"-c", "exit 6"}
	if err := newGrant(t).Run(r.Handle, nil); ExitCode(err) != 6 {
		t.Errorf("the next run: %v", err)
	}
}

func BenchmarkRun(b *testing.B) {
	r, err := New(Command{Path: "true"})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for b.Loop() {
		g := worker.NewGrant(b.Context(), testTerm(), boottime.Now().Add(time.Minute), 0)
		if err := g.Run(r.Handle, nil); err != nil {
			b.Fatal(err)
		}
	}
}
