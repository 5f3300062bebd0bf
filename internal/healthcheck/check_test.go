package healthcheck

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestURL(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte("no disk\nmore"))
	}))
	defer server.Close()
	check, err := URL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context()); err != nil {
		t.Errorf("a 200 is %v", err)
	}
	status = http.StatusServiceUnavailable
	if err := check(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "no disk") {
		t.Errorf("a 503 is %v", err)
	}
	server.Close()
	if err := check(t.Context()); err == nil {
		t.Error("a closed port is healthy")
	}
}

func TestURLRefusesBadInput(t *testing.T) {
	for _, in := range []string{"", "localhost:80", "ftp://x/", "http://", "http://a b/"} {
		if _, err := URL(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestCommand(t *testing.T) {
	if err := Command("true")(t.Context()); err != nil {
		t.Error(err)
	}
	err := Command("echo no disk >&2; exit 3")(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no disk") || !strings.Contains(err.Error(), "3") {
		t.Errorf("got %v", err)
	}
}

func TestCommandThatHangsIsKilledWithItsChildren(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Command("trap '' TERM; sleep 1000 & echo $! > " + pidFile + "; wait")(ctx) }()
	var pid int
	testenv.Eventually(t, 10*time.Second, func() error {
		b, err := os.ReadFile(pidFile)
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err
	})
	cancel()
	if err := <-done; err == nil {
		t.Error("a command that was killed is healthy")
	}
	testenv.Eventually(t, 10*time.Second, func() error {
		// A zombie waits for init; it does no work.
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			return syscall.EBUSY
		}
		return nil
	})
}
