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

	"github.com/nats-io/nats-server/v2/server"

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

func newWorkshop(t *testing.T, options ...natsenv.Option) *workshop {
	t.Helper()
	return &workshop{t: t, nats: natsenv.Start(t, options...), file: filepath.Join(t.TempDir(), "work")}
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

// A leader dies, and the grant lapses. A command that obeys SIGTERM and exits
// with code 0 has not done its work, and none has failed: the next leader's grant
// starts it again.
func TestACommandThatObeysIsNotDone(t *testing.T) {
	w := newWorkshop(t)
	a := w.candidate("a")
	var workers []*procenv.Process
	for _, restart := range []string{"on-failure", "never"} {
		for _, code := range []string{"0", "3"} {
			workers = append(workers, w.worker("restart-"+restart+"-"+code, "--role", "r"+restart+code, "--restart", restart, "--",
				"sh", "-c", "trap 'exit "+code+"' TERM; sleep 600 & wait"))
		}
	}
	for _, p := range workers {
		said(t, p, 0, "starting the work", "epoch=1")
	}
	b := w.candidate("b")
	waitFor(t, b, "a")
	a.Signal(syscall.SIGKILL)
	for _, p := range workers {
		said(t, p, 0, "starting the work", "epoch=2")
		if text := p.Stderr(); strings.Contains(text, "failed") {
			t.Errorf("%s counts a failure:\n%s", p.Name(), text)
		}
	}
}

func TestWorkerPassesTheCodeOn(t *testing.T) {
	w := newWorkshop(t)
	w.candidate("a")
	run := func(args ...string) int {
		t.Helper()
		p := procenv.Start(t, args[len(args)-1], nil, append([]string{"worker", "-e", "prod/scheduler", "--role", "job", "--nats-url", w.nats.URL()}, args...)...)
		return p.Wait(30 * time.Second)
	}
	done, trap := writeModule(t, commandModule("")), writeModule(t, commandModule("\x00"))
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"--", "true"}},
		{7, []string{"--restart", "never", "--", "sh", "-c", "exit 7"}},
		{127, []string{"--", "/no/such/command"}},
		{2, []string{"--role", "not a label", "--", "true"}},
		{0, []string{"--wasm", done}},
		{1, []string{"--restart", "never", "--wasm", trap}},
	} {
		if got := run(c.args...); got != c.want {
			t.Errorf("%q exits with %d, want %d", c.args, got, c.want)
		}
	}
}

// A worker needs no more rights than docs/workers.md and docs/log.md list.
func TestWorkerLeastPermissions(t *testing.T) {
	const api = "leaderbridge.api.default.prod.scheduler."
	w := newWorkshop(t, func(o *server.Options) {
		o.NoAuthUser = "all"
		o.Users = []*server.User{
			{Username: "all", Password: "all"},
			{Username: "worker", Password: "worker", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					api + "grant", api + "return",
					"$JS.API.STREAM.INFO.LEADERBRIDGE", "$JS.API.STREAM.MSG.GET.LEADERBRIDGE", "$JS.API.CONSUMER.CREATE.LEADERBRIDGE.>", "$JS.FC.LEADERBRIDGE.>",
					"copies.all", "$KV.leaderbridge_positions.>",
					"$JS.API.STREAM.INFO.KV_leaderbridge_positions", "$JS.API.STREAM.MSG.GET.KV_leaderbridge_positions", "$JS.API.STREAM.CREATE.KV_leaderbridge_positions",
				}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", api + "drain", api + "free", api + "free.>"}},
			}},
		}
	})
	c := newCopies(t, w)
	w.candidate("a")
	p := w.worker("w1", "--nats-user", "worker", "--nats-password", "worker", "--on", "event", "--publish", "copies.all", "--", "cat")
	c.same(1)
	b := w.candidate("b")
	waitFor(t, b, "a")
	w.stepDown("b")
	c.same(4)
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := strings.ToLower(p.Stderr()); strings.Contains(text, "permission") {
		t.Errorf("rights are missing:\n%s", p.Stderr())
	}

	// One that is missing is named.
	poor := w.worker("w3", "--nats-user", "worker", "--nats-password", "worker", "--on", "event", "--publish", "copies.none", "--role", "third",
		"--restart-pause", "100ms", "--", "cat")
	said(t, poor, 0, "copies.none", "ermission")
}
