package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns the two ends of a new terminal.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// Field case 92, on a real terminal: the command can read from it, it is one
// for its output too, and Ctrl-C reaches the worker alone, which passes it on.
func TestOnATerminal(t *testing.T) {
	ours, theirs := openTerminal(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-valid", "60s", "-relay", "-terminal", "-marker", "LB_TEST_ID=terminal", "sh", "-c",
		`trap 'echo "<trapped>"; exit 5' INT; test -t 1 && echo "<ready>"; read line; echo "<got $line>"; while :; do sleep 0.1; done`)
	cmd.Env = append(os.Environ(), "LB_TEST_PART=worker")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	var mu sync.Mutex
	var screen strings.Builder
	var reading sync.WaitGroup
	reading.Go(func() {
		b := make([]byte, 1024)
		for {
			n, err := ours.Read(b)
			if err != nil {
				return // the last of theirs was closed
			}
			mu.Lock()
			screen.Write(b[:n])
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		reading.Wait()
	})
	shows := func(text string) {
		t.Helper()
		eventually(t, 20*time.Second, "the terminal shows "+text, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(screen.String(), text)
		})
	}
	typed := func(keys string) {
		t.Helper()
		if _, err := ours.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	shows("<ready>")
	typed("hello\n")
	shows("<got hello>")
	typed("\x03")
	shows("signal interrupt")
	shows("<trapped>")
	shows("result 5")
	if n := strings.Count(screen.String(), "<trapped>"); n != 1 {
		t.Errorf("the command was interrupted %d times", n)
	}
}

// The guard hurries, its command does not, and keeps the priority of the worker.
func TestTheCommandKeepsItsPriority(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The fields 19 and 41 of proc_pid_stat(5): nice value and policy.
	cmd := exec.Command("nice", "-n", "5", exe, "-valid", "60s", "sh", "-c", "sleep 0.5; cut -d' ' -f19,41 /proc/self/stat")
	cmd.Env = append(os.Environ(), "LB_TEST_PART=worker")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "\n5 0\n") {
		t.Errorf("%v, nice value and policy in\n%s", err, out)
	}
}
