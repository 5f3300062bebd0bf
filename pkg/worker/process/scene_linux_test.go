package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// scene is a worker program under test, with its command.
type scene struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Writer
	record string
	marker string

	mu       sync.Mutex
	guard    proc
	deadline boottime.Instant
	said     []string
	exited   chan struct{}
}

func stage(t *testing.T, workerArgs []string, commandArgs ...string) *scene {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, record: t.TempDir() + "/record", exited: make(chan struct{})}
	s.marker = fmt.Sprintf("LB_TEST_ID=%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
	args := append([]string{"-marker", s.marker}, workerArgs...)
	args = append(args, exe, "-record", s.record)
	s.cmd = exec.Command(exe, append(args, commandArgs...)...)
	s.cmd.Env = append(os.Environ(), "LB_TEST_PART=worker")
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// A pipe of our own: the command holds it too, and must not hold us.
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout = w
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var reading sync.WaitGroup
	reading.Go(func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			s.hear(in.Text())
		}
	})
	go func() {
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() {
		for _, sig := range []syscall.Signal{syscall.SIGCONT, syscall.SIGKILL} {
			_ = s.cmd.Process.Signal(sig)
		}
		<-s.exited
		if t.Failed() {
			s.mu.Lock()
			s.guard.signal(syscall.SIGKILL) // nobody else, if its number was given away
			s.mu.Unlock()
		}
		for _, p := range withMarker(s.marker) {
			p.signal(syscall.SIGKILL)
		}
		reading.Wait()
		out.Close()
	})
	return s
}

func (s *scene) hear(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
	switch word, arg, _ := strings.Cut(line, " "); word {
	case "guard":
		pid, _ := strconv.Atoi(arg)
		s.guard, _ = readProc(pid)
	case "deadline":
		n, _ := strconv.ParseInt(arg, 10, 64)
		s.deadline = boottime.Instant(n)
	}
}

func (s *scene) tell(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// atWork renews a grant of 4 s, which a busy machine may need to start so many
// processes, until all of them have begun.
func (s *scene) atWork(processes int) {
	s.t.Helper()
	s.heard("deadline")
	next := time.Now()
	eventually(s.t, 30*time.Second, fmt.Sprintf("%d processes at work", processes), func() bool {
		if time.Now().After(next) {
			s.tell("extend 4s")
			next = time.Now().Add(300 * time.Millisecond)
		}
		return countBegun(s.t, s.record) >= processes
	})
	s.tell("ping")
	s.heard("pong") // all renewals have been taken in
}

// heard waits for a line that begins so, and returns it.
func (s *scene) heard(prefix string) (line string) {
	s.t.Helper()
	defer func() {
		if line == "" {
			s.t.Logf("it said %q", s.said)
		}
	}()
	eventually(s.t, 20*time.Second, "the worker says "+prefix, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range s.said {
			if strings.HasPrefix(l, prefix) {
				line = l
				return true
			}
		}
		return false
	})
	return line
}

func (s *scene) now() (guard int, deadline boottime.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guard.pid, s.deadline
}

// gone waits until nothing of the command is left.
func (s *scene) gone(within time.Duration) {
	s.t.Helper()
	eventually(s.t, within, "nothing of the command is left", func() bool { return len(withMarker(s.marker)) == 0 })
}

// noWorkAfter checks that no process worked at or after an instant, and that
// at least so many worked before it.
func (s *scene) noWorkAfter(deadline boottime.Instant, processes int) {
	s.t.Helper()
	pids := map[int]bool{}
	var last boottime.Instant
	for _, e := range readRecord(s.t, s.record) {
		pids[e.pid] = true
		last = max(last, e.at)
		if e.at >= deadline {
			s.t.Fatalf("process %d: %q %v after the deadline", e.pid, e.what, e.at.Sub(deadline))
		}
	}
	if len(pids) < processes {
		s.t.Fatalf("only %d processes worked, want %d", len(pids), processes)
	}
	s.t.Logf("the last of %d processes ended %v before the deadline", len(pids), deadline.Sub(last))
}
