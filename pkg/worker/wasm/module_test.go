package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestHandleReturnsHowTheModuleEnded(t *testing.T) {
	for _, c := range []struct {
		args []string
		want uint32
	}{{[]string{"exit", "0"}, 0}, {[]string{"exit", "3"}, 3}, {[]string{"panic"}, 2}} {
		m := newGuest(t, Options{Args: c.args, Stderr: io.Discard})
		err := newGrant(t, time.Minute, 0).Run(m.Handle, nil)
		var exit *ExitError
		if errors.As(err, &exit); c.want == 0 && err != nil || c.want != 0 && (exit == nil || exit.Code != c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

// A module is stopped wherever it is: in a loop without calls, in recursion
// without loops, in a sleep. Meanwhile the worker itself goes on, even with one
// processor: its renewals and its garbage collector must not wait.
func TestABusyModuleIsStopped(t *testing.T) {
	for _, c := range []struct {
		name   string
		binary []byte
	}{
		{"loop", spinning()}, {"recursion", recursing()}, {"sleep", sleeping()}, {"output", flooding()},
	} {
		for _, procs := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", c.name, procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				m := newModule(t, c.binary, Options{Stdout: io.Discard})
				g := newGrant(t, time.Minute, 0)
				done := make(chan error, 1)
				go func() { done <- g.Run(m.Handle, nil) }()
				for range 5 { // renewals, and collections, while it is busy
					time.Sleep(20 * time.Millisecond)
					runtime.GC()
					if !g.Extend(boottime.Now().Add(time.Minute)) {
						t.Fatal("the grant was lost although it was renewed")
					}
				}
				select {
				case err := <-done:
					t.Fatalf("it ended by itself: %v", err)
				default:
				}
				asked := boottime.Now()
				g.Drain(errors.New("the leader steps down"))
				err := <-done
				if took := boottime.Now().Sub(asked); took > 5*time.Second {
					t.Errorf("stopped after %v", took)
				}
				if err == nil || !strings.Contains(err.Error(), "it was stopped: the leader steps down") {
					t.Errorf("run = %v", err)
				}
			})
		}
	}
}

func TestAModuleIsStoppedBeforeItsDeadline(t *testing.T) {
	for name, binary := range map[string][]byte{"loop": spinning(), "recursion": recursing(), "sleep": sleeping()} {
		m := newModule(t, binary, Options{Stdout: io.Discard})
		g := newGrant(t, 3*time.Second, 2*time.Second)
		err := g.Run(m.Handle, func(worker.Term) { t.Errorf("%s: overran its deadline", name) })
		if now := boottime.Now(); now >= g.Term().Deadline() {
			t.Errorf("%s: stopped %v after the deadline", name, now.Sub(g.Term().Deadline()))
		}
		if err == nil || !strings.Contains(err.Error(), "it was stopped: the grant was not renewed in time") {
			t.Errorf("%s: run = %v", name, err)
		}
	}
}

// syncBuffer is a buffer for a module to write to while a test reads it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

// stampWriter notes when the last write was.
type stampWriter struct {
	mu     sync.Mutex
	writes int
	last   boottime.Instant
}

func (s *stampWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.last = boottime.Now()
	return len(p), nil
}

func TestNoWorkAfterTheDeadline(t *testing.T) {
	var w stampWriter
	m := newModule(t, ticking(), Options{Stdout: &w})
	g := newGrant(t, time.Second, 300*time.Millisecond)
	if err := g.Run(m.Handle, nil); err == nil {
		t.Error("it ended by itself")
	}
	time.Sleep(20 * time.Millisecond) // time itself is the subject
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes == 0 || w.last >= g.Term().Deadline() {
		t.Errorf("%d units of work, the last %v before the deadline", w.writes, g.Term().Deadline().Sub(w.last))
	}
}

// A full pipe must not keep a module, and with it the grant, beyond its time.
func TestAWriteThatHangsIsGivenUp(t *testing.T) {
	r, w := io.Pipe() // nobody reads
	m := newModule(t, ticking(), Options{Stdout: w})
	g := newGrant(t, time.Second, 500*time.Millisecond)
	if err := g.Run(m.Handle, func(worker.Term) { t.Error("overrun") }); err == nil {
		t.Error("it ended by itself")
	}
	r.Close()
}

func TestTheMemoryLimitHolds(t *testing.T) {
	const limit = 64 << 20
	var w stampWriter
	m := newModule(t, growing(), Options{Memory: limit, Stdout: &w})
	err := newGrant(t, time.Minute, 0).Run(m.Handle, nil)
	if err == nil || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("run = %v", err)
	}
	if got := (w.writes + 1) * pageSize; got != limit {
		t.Errorf("it got %d bytes, the limit is %d", got, limit)
	}

	if _, err := New(t.Context(), guest, Options{Memory: 64 << 10, interpret: true}); err == nil {
		t.Error("a module that begins with more than the limit was accepted")
	}
}

// Nothing of the worker's world is there unless it was given. (WASI preview 1
// has no function to open a connection.)
func TestNoAmbientPrivileges(t *testing.T) {
	t.Setenv("SECRET", "hidden")
	var out syncBuffer
	m := newGuest(t, Options{Args: []string{"probe", "more"}, Env: []string{"GIVEN=yes", "LEADERBRIDGE_EPOCH=1"}, Stdout: &out})
	if err := newGrant(t, time.Minute, 0).Run(m.Handle, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"arg module", "arg more", "arg probe",
		"env GIVEN=yes", "env LEADERBRIDGE_CLUSTER=default", "env LEADERBRIDGE_ELECTION=prod/scheduler",
		"env LEADERBRIDGE_EPOCH=7", "env LEADERBRIDGE_IDENTITY=worker-1", "env LEADERBRIDGE_LEADER=pod-b",
		"env LEADERBRIDGE_LEASE=scheduler", "env LEADERBRIDGE_NAMESPACE=prod", "env LEADERBRIDGE_ROLE=sync",
		"year " + strconv.Itoa(time.Now().Year()),
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("it sees\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMountsAreConfined(t *testing.T) {
	for _, writable := range []bool{false, true} {
		outer := t.TempDir()
		dir := filepath.Join(outer, "dir")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.MkdirAll(filepath.Join(dir, "below"), 0o700))
		must(os.Mkdir(filepath.Join(outer, "other"), 0o700))
		for _, f := range []string{"secret", "other/secret", "dir/inside", "dir/full", "dir/movable", "dir/removable"} {
			must(os.WriteFile(filepath.Join(outer, f), []byte("x"), 0o600))
		}
		must(os.Symlink("inside", filepath.Join(dir, "link-inside")))
		must(os.Symlink("../secret", filepath.Join(dir, "link-outside")))
		must(os.Symlink(filepath.Join(outer, "secret"), filepath.Join(dir, "link-absolute")))
		must(os.Symlink("../other", filepath.Join(dir, "link-dir")))
		must(os.Symlink("../created-outside", filepath.Join(dir, "link-dangling")))
		must(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))

		var out syncBuffer
		m := newGuest(t, Options{
			Args: []string{"files", "/data"}, Stdout: &out,
			Mounts: []Mount{{Host: dir, Guest: "/data", Writable: writable}},
		})
		must(newGrant(t, time.Minute, 0).Run(m.Handle, nil))
		want := map[string]bool{
			"read": true, "list": true, "list below": true, "read link inside": true,
			"read link outside": false, "read link absolute": false, "read below linked dir": false,
			"list linked dir": false, "read dotdot": false, "stat link outside": false, "read pipe": false,
			"write": writable, "create": writable, "truncate": writable, "mkdir": writable, "rename": writable,
			"remove": writable, "chtimes": writable,
			"write dangling link": false, "rename out": false, "remove outside": false, "symlink": false, "link": false,
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(want) {
			t.Errorf("%d things tried, want %d", len(lines), len(want))
		}
		for _, line := range lines {
			answer, what, _ := strings.Cut(line, " ")
			what, _, _ = strings.Cut(what, ":")
			if may, known := want[what]; !known || may != (answer == "yes") {
				t.Errorf("writable %v: %s", writable, line)
			}
		}
		for _, f := range []string{"secret", "other/secret"} {
			if b, err := os.ReadFile(filepath.Join(outer, f)); err != nil || string(b) != "x" {
				t.Errorf("%s outside the mount: %q, %v", f, b, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(outer, "created-outside")); err == nil {
			t.Error("a file was created outside the mount")
		}
		if b, err := os.ReadFile(filepath.Join(dir, "full")); !writable && string(b) != "x" {
			t.Errorf("a file was truncated in a mount that is read-only: %v", err)
		}
	}
}

// Field case 94: one copy at a time, also in the next term.
func TestTermsFollowOneAnother(t *testing.T) {
	var w stampWriter
	m := newModule(t, ticking(), Options{Stdout: &w})
	for range 3 {
		g := newGrant(t, time.Minute, 0)
		done := make(chan error, 1)
		go func() { done <- g.Run(m.Handle, nil) }()
		w.mu.Lock()
		before := w.writes
		w.mu.Unlock()
		testenv.Eventually(t, 20*time.Second, func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.writes <= before {
				return errors.New("the module does not work")
			}
			return nil
		})
		if err := m.Handle(t.Context(), g.Term()); err == nil || !strings.Contains(err.Error(), "running already") {
			t.Errorf("a second run beside the first: %v", err)
		}
		g.Drain(errors.New("the leader steps down"))
		if err := <-done; err == nil || !strings.Contains(err.Error(), "the leader steps down") {
			t.Errorf("run = %v", err)
		}
	}
}

func TestATermThatIsOverRunsNothing(t *testing.T) {
	var w stampWriter
	m := newModule(t, ticking(), Options{Stdout: &w})
	g := newGrant(t, time.Minute, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Handle(ctx, g.Term()); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	g.End(nil)
	if err := m.Handle(t.Context(), g.Term()); !errors.Is(err, worker.ErrTermOver) {
		t.Errorf("an ended term: %v", err)
	}
	if w.writes != 0 {
		t.Error("something ran")
	}
}

func TestNewRefusesWhatCannotRun(t *testing.T) {
	const header = "\x00asm\x01\x00\x00\x00"
	for _, c := range []struct{ name, binary, want string }{
		{"nothing", "", "malformed"},
		{"text", "#!/bin/sh\n", "malformed"},
		{"cut", string(guest[:len(guest)/2]), "malformed"},
		{"library", header, "exports no function _start"},
		{"component", "\x00asm\x0d\x00\x01\x00", "is a component"},
		{"other host", header + "\x01\x04\x01\x60\x00\x00" + "\x02\x09\x01\x03env\x01f\x00\x00" + "\x03\x02\x01\x00" +
			"\x07\x0a\x01\x06_start\x00\x01" + "\x0a\x04\x01\x02\x00\x0b", `imports the function f of "env"`},
	} {
		_, err := New(t.Context(), []byte(c.binary), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something about %q", c.name, err, c.want)
		}
	}
	for _, o := range []Options{{Memory: 1}, {Memory: 5 << 30}, {Time: -1}, {Mounts: []Mount{{Host: "/no/such/dir", Guest: "/d"}}}, {Mounts: []Mount{{Host: "/", Guest: "d"}}}} {
		if _, err := New(t.Context(), spinning(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
