package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// A worker beside each candidate follows its own: the work moves with the
// leadership, without a grant.
func TestWorkersFollowAHolder(t *testing.T) {
	w := newWorkshop(t)
	follow := func(holder string) *procenv.Process {
		return procenv.Start(t, "beside "+holder, nil, "worker", "--election", "prod/scheduler", "--nats-url", w.nats.URL(), "--grace", "300ms",
			"--follow-holder", holder, "--", "sh", "-c", `while :; do echo "$$ $LEADERBRIDGE_EPOCH $LEADERBRIDGE_LEADER" >> "$1"; sleep 0.02; done`, "sh", w.file)
	}
	w.candidate("a")
	follow("a")
	follow("b")
	if e := w.await(0, ""); e.worker != "a" || e.epoch != 1 {
		t.Fatalf("work under %s in epoch %d, want a in 1", e.worker, e.epoch)
	}
	b := w.candidate("b")
	waitFor(t, b, "a")
	w.stepDown("b")
	if e := w.await(len(w.entries()), "a"); e.worker != "b" || e.epoch != 2 {
		t.Fatalf("work under %s in epoch %d, want b in 2", e.worker, e.epoch)
	}
	// The news of the end came long before the news of the begin was acted upon.
	n := len(w.entries())
	w.await(n+20, "")
	for _, e := range w.entries()[n:] {
		if e.worker != "b" {
			t.Errorf("work under %s in epoch %d, while b leads", e.worker, e.epoch)
		}
	}
	// A candidate that dies is reported when its lease is over, and its work with
	// it.
	b.Signal(syscall.SIGKILL)
	if e := w.await(len(w.entries()), "b"); e.worker != "a" || e.epoch != 3 {
		t.Errorf("work under %s in epoch %d, want a in 3", e.worker, e.epoch)
	}
}

// A worker that is killed leaves nothing behind, whatever its command has
// started: children and grandchildren, in sessions of their own, that ignore
// SIGTERM and hold its pipes.
func TestAKilledWorkerLeavesNoProcess(t *testing.T) {
	w := newWorkshop(t)
	w.candidate("a")
	pids := filepath.Join(t.TempDir(), "pids")
	const deaf = `trap "" TERM INT HUP; echo $$ >> "$0"; while :; do echo noise; sleep 0.05; done`
	script := `trap "" TERM INT HUP
		sh -c '` + deaf + `' "$0" &
		setsid sh -c '` + deaf + `' "$0" &
		( setsid sh -c 'sh -c "$1" "$0" & exit' "$0" '` + deaf + `' )
		` + deaf
	p := w.worker("w1", "--", "sh", "-c", script, pids)
	read := func() (all []int) {
		text, err := os.ReadFile(pids)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && strings.HasSuffix(line, "\n") {
				all = append(all, pid)
			}
		}
		return all
	}
	testenv.Eventually(t, 40*time.Second, func() error {
		if n := len(read()); n != 4 {
			return fmt.Errorf("%d processes at work, want 4", n)
		}
		return nil
	})
	killed := time.Now()
	p.Signal(syscall.SIGKILL)
	testenv.Eventually(t, 30*time.Second, func() error {
		left := slices.DeleteFunc(read(), func(pid int) bool { return syscall.Kill(pid, 0) != nil })
		if len(left) > 0 {
			return fmt.Errorf("processes %d are left", left)
		}
		return nil
	})
	// Far below the grace of 10 s: they are not asked.
	t.Logf("gone after %s", time.Since(killed))
}
