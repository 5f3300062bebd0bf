package natsconn

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m)
}

// patience is longer than anything here takes on a busy machine.
const patience = 30 * time.Second

// logbook keeps what a connection logs.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lines returns the lines that contain each of the words.
func (l *logbook) lines(words ...string) (found []string) {
lines:
	for line := range strings.Lines(l.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// open connects, and closes at the end of the test. The log is shown if the
// test fails, and must not contain "s3cret", which all tests use in secrets.
func open(t *testing.T, o Options) (*Conn, *logbook) {
	t.Helper()
	book := &logbook{}
	conn, err := Connect(t.Context(), o, slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if strings.Contains(book.String(), "s3cret") {
			t.Error("the log tells a secret")
		}
		if t.Failed() {
			t.Logf("the connection's log:\n%s", book)
		}
	})
	return conn, book
}

func waitConnected(t *testing.T, conn *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := conn.WaitConnected(ctx); err != nil {
		t.Fatal(err)
	}
}

// waitLog waits for a number of lines that contain each of the words.
func waitLog(t *testing.T, book *logbook, n int, words ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if got := len(book.lines(words...)); got < n {
			return fmt.Errorf("%d log lines with %q, want %d", got, words, n)
		}
		return nil
	})
}

func waitAway(t *testing.T, conn *Conn) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if conn.IsConnected() {
			return fmt.Errorf("still connected")
		}
		return nil
	})
}

// replace writes a file the way secrets are rotated: whole, by renaming.
func replace(t *testing.T, file, content string) {
	t.Helper()
	next := file + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

func tempFile(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	replace(t, file, content)
	return file
}
