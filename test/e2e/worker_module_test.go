package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
	"github.com/nats-io/nats.go/jetstream"
)

// The modules here are written by hand, since the race detector makes the
// compilation of a large one take very long. The numbers are those of
// WebAssembly's core specification, chapter 5, and of WASI preview 1.

// busy is a module that computes for ever.
var busy = commandModule("\x03\x40\x0c\x00\x0b")

// echo is a module that copies its standard input to its standard output.
var echo = commandModule("\x03\x40" + // loop
	"\x41\x00\x41\x00\x41\x01\x41\x10\x10\x01\x1a" + // fd_read(0, vector at 0, 1, count at 16)
	"\x41\x0c\x41\x10\x28\x02\x00\x36\x02\x00" + // the length of the vector at 8 is what was read
	"\x41\x10\x28\x02\x00\x04\x40" + // if that is not 0
	"\x41\x01\x41\x08\x41\x01\x41\x14\x10\x00\x1a" + // fd_write(1, vector at 8, 1, count at 20)
	"\x0c\x01\x0b\x0b") // once more

// commandModule is a command with that code, and two vectors for a buffer of
// 60000 bytes at 64: at 0 for reading, at 8 for writing.
func commandModule(code string) []byte {
	block := func(s string) string {
		var length []byte
		n := len(s)
		for ; n >= 0x80; n >>= 7 {
			length = append(length, byte(n)|0x80)
		}
		return string(append(length, byte(n))) + s
	}
	section := func(id, content string) string { return id + block(content) }
	wasi := block("wasi_snapshot_preview1")
	return []byte("\x00asm\x01\x00\x00\x00" +
		section("\x01", "\x02\x60\x00\x00\x60\x04\x7f\x7f\x7f\x7f\x01\x7f") +
		section("\x02", "\x02"+wasi+block("fd_write")+"\x00\x01"+wasi+block("fd_read")+"\x00\x01") +
		section("\x03", "\x01\x00") +
		section("\x05", "\x01\x00\x01") +
		section("\x07", "\x02"+block("_start")+"\x00\x02"+block("memory")+"\x02\x00") +
		section("\x0a", "\x01"+block("\x00"+code+"\x0b")) +
		section("\x0b", "\x01\x00\x41\x00\x0b"+block("\x40\x00\x00\x00\x60\xea\x00\x00\x40\x00\x00\x00")))
}

func writeModule(t *testing.T, binary []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "module.wasm")
	if err := os.WriteFile(path, binary, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// worker starts a worker in the role "sync".
func (w *workshop) worker(id string, args ...string) *procenv.Process {
	w.t.Helper()
	return procenv.Start(w.t, id, nil, append([]string{
		"worker", "--election", "prod/scheduler", "--role", "sync", "--nats-url", w.nats.URL(), "--id", id,
	}, args...)...)
}

// stepDown has the leader hand over to another.
func (w *workshop) stepDown(to string) {
	w.t.Helper()
	p := procenv.Start(w.t, "step-down", nil, "step-down", "--nats-url", w.nats.URL(), "--timeout", "20s", "--to", to, "prod/scheduler")
	if code := p.Wait(30 * time.Second); code != 0 {
		w.t.Fatalf("step-down: exit code %d: %s", code, p.Stderr())
	}
}

// said waits until a process has written a line with all the words to its
// standard error, after so many bytes.
func said(t *testing.T, p *procenv.Process, after int, words ...string) {
	t.Helper()
	testenv.Eventually(t, 40*time.Second, func() error {
		for line := range strings.Lines(p.Stderr()[after:]) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				return nil
			}
		}
		return fmt.Errorf("%s has not said %q", p.Name(), words)
	})
}

// A module that never makes a call is stopped at each hand-over, and started
// again under the next leader.
func TestABusyModuleRunsAsLongAsTheTerm(t *testing.T) {
	w := newWorkshop(t)
	w.candidate("a")
	p := w.worker("w1", "--wasm", writeModule(t, busy))
	said(t, p, 0, "starting the work", "epoch=1")
	b := w.candidate("b")
	waitFor(t, b, "a")
	before := len(p.Stderr())
	w.stepDown("b")
	said(t, p, before, "stopping the work", "epoch=1")
	said(t, p, before, "starting the work", "epoch=2", "leader=b")
	asked := time.Now()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Stderr())
	}
	// Its grant lasts two seconds: it was given back, and not waited for.
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("it took %s to stop", took)
	}
}

// copies is a stream of what the runs for events have published.
type copies struct {
	t  *testing.T
	js jetstream.JetStream
}

func newCopies(t *testing.T, w *workshop) *copies {
	t.Helper()
	c := &copies{t: t, js: w.nats.JetStream(t)}
	if _, err := c.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "COPIES", Subjects: []string{"copies.>"}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// ids returns the ids of the events in a stream, in order.
func (c *copies) ids(stream string) (ids []string, err error) {
	s, err := c.js.Stream(c.t.Context(), stream)
	if err != nil {
		return nil, err
	}
	state := s.CachedInfo().State
	for seq := max(1, state.FirstSeq); seq <= state.LastSeq; seq++ {
		msg, err := s.GetMsg(c.t.Context(), seq)
		if err != nil {
			return nil, err
		}
		e, err := events.Decode(msg.Header, msg.Data)
		if err != nil {
			return nil, fmt.Errorf("message %d of %s: %w", seq, stream, err)
		}
		ids = append(ids, e.ID())
	}
	return ids, nil
}

// same waits until every event of the log, but for those before the first copy,
// has exactly one copy, in the same order, and at least so many are there.
func (c *copies) same(atLeast int) {
	c.t.Helper()
	testenv.Eventually(c.t, 60*time.Second, func() error {
		log, err := c.ids("LEADERBRIDGE")
		if err != nil {
			return err
		}
		all, err := c.ids("COPIES")
		if err != nil {
			return err
		}
		if len(all) < atLeast {
			return fmt.Errorf("%d copies, want %d", len(all), atLeast)
		}
		if from := slices.Index(log, all[0]); from < 0 || !slices.Equal(log[from:], all) {
			return fmt.Errorf("copies %q of the log %q", all, log)
		}
		return nil
	})
}

// Every event has one run, in order, whatever happens to leaders and workers.
// A run may be made twice; the stream then refuses the second copy, since its id
// is the same.
func testOneRunForEachEvent(t *testing.T, what ...string) {
	t.Helper()
	w := newWorkshop(t)
	c := newCopies(t, w)
	a := w.candidate("a")
	args := append([]string{"--on", "event", "--publish", "copies.all"}, what...)
	w1 := w.worker("w1", args...)
	c.same(1)
	w.worker("w2", args...)
	b := w.candidate("b")
	waitFor(t, b, "a")
	w.stepDown("b")
	c.same(4)
	w1.Signal(syscall.SIGKILL)
	b.Signal(syscall.SIGKILL)
	c.same(7)
	w.nats.Restart(t)
	a.Signal(syscall.SIGTERM)
	if code := a.Wait(30 * time.Second); code != 0 {
		t.Errorf("a: exit code %d", code)
	}
	w.candidate("d")
	c.same(10)
}

func TestOneRunOfAModuleForEachEvent(t *testing.T) {
	testOneRunForEachEvent(t, "--wasm", writeModule(t, echo))
}

func TestOneRunOfACommandForEachEvent(t *testing.T) {
	testOneRunForEachEvent(t, "--", "cat")
}

// Without --publish the events come out of the worker, which passes by what is
// none, and says so.
func TestEventsToStandardOutput(t *testing.T) {
	w := newWorkshop(t)
	w.candidate("a")
	p := w.worker("w1", "--on", "event", "--", "sh", "-c", `echo "working on it"; cat`)
	testenv.Eventually(t, 40*time.Second, func() error {
		e, err := events.Decode(nil, []byte(p.Stdout()))
		if err != nil || e.Leader != "a" {
			return fmt.Errorf("%q, %w", p.Stdout(), err)
		}
		return nil
	})
	said(t, p, 0, "output", "working on it")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A subject that no stream takes is a failed run, which is made again.
func TestPublishingNeedsAStream(t *testing.T) {
	w := newWorkshop(t)
	w.candidate("a")
	p := w.worker("w1", "--on", "event", "--publish", "copies.all", "--restart-pause", "100ms", "--max-failures", "100", "--wasm", writeModule(t, echo))
	said(t, p, 0, "no stream takes this subject")
	newCopies(t, w).same(1)
}
