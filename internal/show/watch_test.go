package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// watching runs WatchLeaders until the test ends, which must end it without an
// error.
func watching(t *testing.T, log *events.Log, format Format, screen *Screen, logger *slog.Logger) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- WatchLeaders(ctx, log, nil, format, screen, logger) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the end of a watch: %v", err)
		}
	})
}

func TestWatchInAPipe(t *testing.T) {
	w := newWorld(t)
	e := election("default", "prod", "scheduler")
	w.lead(t, e, "pod-a_1")
	screen, out := pipe()
	watching(t, w.reader(t), Table, screen, quiet())
	out.waitFor(t, "pod-a_1")
	w.lead(t, e, "pod-b_2")
	w.lead(t, election("eu", "prod", "scheduler"), "pod-c_3")
	out.waitFor(t, "pod-b_2", "eu/prod/scheduler")

	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line)[:3], " "))
	}
	want := []string{"ELECTION LEADER EPOCH", "prod/scheduler pod-a_1 1", "prod/scheduler nobody 1", "prod/scheduler pod-b_2 2", "eu/prod/scheduler pod-c_3 1"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", out, strings.Join(want, "\n"))
	}
}

func TestWatchAsJSONLines(t *testing.T) {
	w := newWorld(t)
	e := election("default", "prod", "scheduler")
	w.lead(t, e, "pod-a_1")
	screen, out := pipe()
	watching(t, w.reader(t), JSON, screen, quiet())
	out.waitFor(t, "pod-a_1")
	w.end(t, e, events.Released)
	out.waitFor(t, "released")
	var leaders []string
	for line := range strings.Lines(out.String()) {
		var l leader
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		leaders = append(leaders, l.Leader)
	}
	if fmt.Sprintf("%q", leaders) != `["pod-a_1" ""]` {
		t.Errorf("leaders %q", leaders)
	}
}

func TestWatchOnATerminal(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.lead(t, election("default", "prod", fmt.Sprintf("lease-%d", i)), fmt.Sprintf("pod-%d_1", i))
	}
	w.end(t, election("default", "prod", "lease-9"), events.Released)
	screen, out := terminal(100, 8, colorprofile.ANSI)
	watching(t, w.reader(t), Table, screen, quiet())
	out.waitFor(t, "10 elections, 1 without a leader, 5 more than fit here")

	frame := func() []string {
		all := out.String()
		last := all[strings.LastIndex(all, ansi.CursorHomePosition):]
		return strings.Split(strings.TrimSuffix(ansi.Strip(last), "\n"), "\n")
	}
	testenv.Eventually(t, patience, func() error {
		if lines := frame(); len(lines) != 7 || !strings.HasPrefix(lines[5], "prod/lease-4") {
			return fmt.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		return nil
	})
	w.lead(t, election("default", "prod", "lease-0"), "pod-x_2")
	out.waitFor(t, "pod-x_2")

	// What is shown while the log is away is said to be old.
	w.srv.Stop()
	out.waitFor(t, "out of date for")
	w.srv.Restart(t)
	testenv.Eventually(t, patience, func() error {
		if lines := frame(); !strings.HasPrefix(lines[len(lines)-1], "10 elections") {
			return fmt.Errorf("got %q", lines[len(lines)-1])
		}
		return nil
	})
}

func TestWatchWaitsForTheLog(t *testing.T) {
	w := newWorld(t)
	js := w.srv.JetStream(t)
	if err := js.DeleteStream(t.Context(), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	screen, out := terminal(80, 24, colorprofile.NoTTY)
	watching(t, w.reader(t), Table, screen, quiet())
	out.waitFor(t, "waiting for the log", "does not exist")
	if err := w.log.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.lead(t, election("default", "prod", "scheduler"), "pod-a_1")
	out.waitFor(t, "pod-a_1", "1 elections")
}

// A log that was made anew knows nothing of what was before.
func TestWatchForgetsWhatTheLogForgot(t *testing.T) {
	w := newWorld(t)
	w.lead(t, election("default", "prod", "old"), "pod-a_1")
	w.lead(t, election("default", "prod", "old"), "pod-a_2")
	screen, out := terminal(80, 24, colorprofile.NoTTY)
	watching(t, w.reader(t), Table, screen, quiet())
	out.waitFor(t, "pod-a_2")
	// Without its bucket and by another program: both know where it ended.
	js := w.srv.JetStream(t)
	for _, stream := range []string{events.DefaultStream, "KV_" + events.DefaultBucket} {
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.log, err = events.Open(t.Context(), w.srv.Connect(t), events.Options{}); err != nil {
		t.Fatal(err)
	}
	w.lead(t, election("default", "prod", "new"), "pod-b_1")
	testenv.Eventually(t, patience, func() error {
		all := out.String()
		if frame := all[max(strings.LastIndex(all, "ELECTION"), 0):]; !strings.Contains(frame, "pod-b_1") || strings.Contains(frame, "old") {
			return fmt.Errorf("the last frame is\n%s", frame)
		}
		return nil
	})
}

func TestPipeIsToldOfDoubt(t *testing.T) {
	w := newWorld(t)
	w.lead(t, election("default", "prod", "scheduler"), "pod-a_1")
	screen, out := pipe()
	var told sink
	watching(t, w.reader(t), Table, screen, slog.New(slog.NewTextHandler(&told, nil)))
	out.waitFor(t, "pod-a_1")
	w.srv.Restart(t)
	told.waitFor(t, "what is shown may be out of date", "what is shown is current again")
	if n := bytes.Count([]byte(out.String()), []byte("\n")); n != 2 {
		t.Errorf("%d lines printed, although nothing changed:\n%s", n, out)
	}
}
