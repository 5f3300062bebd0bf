package wasm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// guest is the module built from testdata/guest.
var guest []byte

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "wasm")
	if err == nil {
		guest, err = build(filepath.Join(dir, "guest.wasm"), "./testdata/guest")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// build builds a Go program as a WASI preview 1 module.
func build(out, pkg string) ([]byte, error) {
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", pkg, err, msg)
	}
	return os.ReadFile(out)
}

func newModule(t *testing.T, binary []byte, o Options) *Module {
	t.Helper()
	m, err := New(t.Context(), binary, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// newGuest runs the guest in the interpreter; see Options.
func newGuest(t *testing.T, o Options) *Module {
	t.Helper()
	o.interpret = true
	return newModule(t, guest, o)
}

func newGrant(t *testing.T, valid, notice time.Duration) *worker.Grant {
	t.Helper()
	g := worker.NewGrant(t.Context(), worker.Term{
		Election: events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"},
		Role:     "sync", Epoch: 7, Leader: "pod-b", Identity: "worker-1",
	}, boottime.Now().Add(valid), notice)
	t.Cleanup(func() { g.End(nil) })
	return g
}
