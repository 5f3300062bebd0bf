package deploy

import (
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

// The released binary needs nothing from the file system: it leads in a root
// that holds nothing else, as the user of the image, and stops cleanly. Building
// it compiles everything anew, so "make test-static" does, and not every run.
func TestStatic(t *testing.T) {
	built := os.Getenv("LEADERBRIDGE_STATIC")
	if built == "" {
		t.Skip("the binary as it is released takes minutes to build: make test-static")
	}
	file, err := elf.Open(built)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary has a segment %s: it asks for a dynamic linker", p.Type)
		}
	}
	info, err := buildinfo.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" && s.Value != "0" || s.Key == "-race" {
			t.Errorf("built with %s=%s", s.Key, s.Value)
		}
	}
	if os.Getuid() != 0 {
		t.Fatal("only root can give a process another root: run make test-static as root")
	}

	root := t.TempDir()
	// Outside the folders of the test, which others may not enter.
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "leaderbridge"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	confined := func(args ...string) (*exec.Cmd, *strings.Builder) {
		cmd := exec.Command("/leaderbridge", args...)
		cmd.Env, cmd.Dir = []string{}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		return cmd, &out
	}
	version, out := confined("--version")
	if err := version.Run(); err != nil {
		t.Fatalf("--version: %v\n%s", err, out)
	}
	t.Logf("%s, %d bytes", strings.TrimSpace(out.String()), len(program))

	nats := natsenv.Start(t)
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	run, out := confined("run", "--lock", "nats", "--lease-lock-name", "scheduler", "--id", "a", "--nats-url", nats.URL(), "--http-addr", addr)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	defer func() { _ = run.Process.Kill() }()
	testenv.Eventually(t, 30*time.Second, func() error {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz answers %s", resp.Status)
		}
		return nil
	})
	log, err := events.Open(t.Context(), nats.Connect(t), events.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 30*time.Second, func() error {
		tail, err := log.Tail(t.Context(), events.Election{Cluster: "default", Namespace: "default", Lease: "scheduler"})
		if err == nil && tail.Last.Transition != events.NewLeader {
			err = fmt.Errorf("the last event is %q", tail.Last.Transition)
		}
		return err
	})
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", run.Process.Pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") {
				t.Log(strings.Join(strings.Fields(line), " "))
			}
		}
	}
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("stopped with %v\n%s", err, out)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("does not stop\n%s", out)
	}
}
