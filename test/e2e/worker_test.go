package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// entry is one unit of work that a worker's command has recorded.
type entry struct {
	pid, epoch int
	worker     string
}

// workshop is an election on a NATS lock, and workers whose commands record
// their work in one file.
type workshop struct {
	t    *testing.T
	nats *natsenv.Server
	file string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	return &workshop{t: t, nats: natsenv.Start(t), file: filepath.Join(t.TempDir(), "work")}
}

func (w *workshop) candidate(id string) *procenv.Process {
	w.t.Helper()
	return procenv.Start(w.t, id, nil,
		"run", "--lock", "nats", "--lease-lock-name", "scheduler", "--lease-lock-namespace", "prod", "--nats-url", w.nats.URL(), "--id", id,
		"--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms", "--http-addr", "")
}

// hire starts a worker. Its command works until it is killed: it does not heed
// SIGTERM, and neither do its children.
func (w *workshop) hire(id string, args ...string) *procenv.Process {
	w.t.Helper()
	script := `trap '' TERM; while :; do echo "$$ $LEADERBRIDGE_EPOCH $LEADERBRIDGE_IDENTITY" >> "$1"; sleep 0.02; done`
	all := append([]string{"worker", "--election", "prod/scheduler", "--role", "sync", "--nats-url", w.nats.URL(), "--id", id, "--grace", "300ms"}, args...)
	return procenv.Start(w.t, id, nil, append(all, "--", "sh", "-c", script, "sh", w.file)...)
}

func (w *workshop) entries() []entry {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	var all []entry
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue // being written
		}
		pid, _ := strconv.Atoi(f[0])
		epoch, _ := strconv.Atoi(f[1])
		all = append(all, entry{pid, epoch, f[2]})
	}
	return all
}

// await waits for work that was not there before, of a worker other than one.
func (w *workshop) await(before int, not string) entry {
	w.t.Helper()
	var found entry
	testenv.Eventually(w.t, 40*time.Second, func() error {
		all := w.entries()
		for _, e := range all[min(before, len(all)):] {
			if e.worker != not {
				found = e
				return nil
			}
		}
		return fmt.Errorf("no new work by another than %q after entry %d of %d", not, before, len(all))
	})
	return found
}

// check holds what must hold: the runs of the command do not mix, and epochs do
// not fall.
func (w *workshop) check() {
	w.t.Helper()
	seen := map[int]bool{}
	var last entry
	for i, e := range w.entries() {
		if e.pid == last.pid {
			continue
		}
		if seen[e.pid] {
			w.t.Errorf("entry %d: process %d of %s works again after %d of %s: they worked at the same time", i, e.pid, e.worker, last.pid, last.worker)
		}
		if e.epoch < last.epoch {
			w.t.Errorf("entry %d: epoch %d after %d", i, e.epoch, last.epoch)
		}
		seen[e.pid], last = true, e
	}
}

// Real processes through what may happen to them. The command ignores SIGTERM
// throughout.
func TestWorkersThroughFaults(t *testing.T) {
	w := newWorkshop(t)
	leaders := map[string]*procenv.Process{"a": w.candidate("a")}
	workers := map[string]*procenv.Process{}
	for _, id := range []string{"w1", "w2", "w3"} {
		workers[id] = w.hire(id)
	}
	now := w.await(0, "")
	leaders["b"] = w.candidate("b")

	// The worker command is stopped: its child must not go on for long.
	stopped := workers[now.worker]
	stopped.Signal(syscall.SIGSTOP)
	now = w.await(len(w.entries()), now.worker)
	stopped.Signal(syscall.SIGCONT)
	n := len(w.entries())
	w.await(n+20, "")
	w.check()

	// The worker is killed.
	workers[now.worker].Signal(syscall.SIGKILL)
	now = w.await(len(w.entries()), now.worker)
	w.check()

	// The leader is killed, and its successor stopped for longer than a lease.
	leaders["a"].Signal(syscall.SIGKILL)
	testenv.Eventually(t, 40*time.Second, func() error {
		if all := w.entries(); all[len(all)-1].epoch <= now.epoch {
			return fmt.Errorf("still epoch %d", now.epoch)
		}
		return nil
	})
	w.check()

	// NATS restarts, lock, log and grants with it.
	w.nats.Restart(t)
	n = len(w.entries())
	w.await(n+100, "")
	w.check()
	t.Logf("%d units of work, last by %+v", len(w.entries()), w.entries()[len(w.entries())-1])
}

// A clean end of the worker: exit code 0, the command gone, and the next worker
// at work at once.
func TestWorkerEndsCleanly(t *testing.T) {
	w := newWorkshop(t)
	w.candidate("a")
	first := w.hire("w1")
	w.await(0, "")
	w.hire("w2")
	first.Signal(syscall.SIGTERM)
	w.await(len(w.entries()), "w1")
	// The command ignores SIGTERM and is killed after its grace.
	if code := first.Wait(20 * time.Second); code != 137 {
		t.Errorf("exit code %d, want that of a command that had to be killed", code)
	}
	w.check()
}

func TestWorkerPassesTheCodeOn(t *testing.T) {
	w := newWorkshop(t)
	w.candidate("a")
	run := func(args ...string) int {
		t.Helper()
		p := procenv.Start(t, args[len(args)-1], nil, append([]string{"worker", "-e", "prod/scheduler", "--role", "job", "--nats-url", w.nats.URL()}, args...)...)
		return p.Wait(30 * time.Second)
	}
	for want, args := range map[int][]string{
		0:   {"--", "true"},
		7:   {"--restart", "never", "--", "sh", "-c", "exit 7"},
		127: {"--", "/no/such/command"},
		2:   {"--role", "not a label", "--", "true"},
	} {
		if got := run(args...); got != want {
			t.Errorf("%q exits with %d, want %d", args, got, want)
		}
	}
}
