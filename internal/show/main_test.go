package show

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patience is longer than anything here takes on a busy machine.
const patience = 30 * time.Second

// sink keeps what is written; several goroutines may look at it meanwhile.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *sink) waitFor(t *testing.T, texts ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		got := s.String()
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Errorf("no %q in\n%s", text, got)
			}
		}
		return nil
	})
}

// pipe is a screen that is no terminal.
func pipe() (*Screen, *sink) {
	s := &sink{}
	return NewScreen(s), s
}

// terminal is a screen of a given size with or without colours.
func terminal(width, height int, profile colorprofile.Profile) (*Screen, *sink) {
	s := &sink{}
	return &Screen{out: &colorprofile.Writer{Forward: s, Profile: profile}, fixedWidth: width, fixedHeight: height}, s
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// world is a log on a real server, and what happens to elections.
type world struct {
	srv   *natsenv.Server
	log   *events.Log
	tails map[events.Election]events.Tail
}

func newWorld(t *testing.T) *world {
	t.Helper()
	srv := natsenv.Start(t)
	log, err := events.Open(t.Context(), srv.Connect(t), events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{srv, log, map[events.Election]events.Tail{}}
}

// reader is another program's view of the log.
func (w *world) reader(t *testing.T) *events.Log {
	t.Helper()
	log, err := events.Open(t.Context(), w.srv.Connect(t), events.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func election(cluster, namespace, lease string) events.Election {
	return events.Election{Cluster: cluster, Namespace: namespace, Lease: lease}
}

// lead makes a holder the leader: three events, or two for the first one.
func (w *world) lead(t *testing.T, e events.Election, holder string) {
	t.Helper()
	tail, duration := w.tails[e], 15
	now := time.Now()
	if tail.Last.Leader != "" {
		w.append(t, e, events.Observed{
			Status: events.Ended, UID: "uid", Revision: tail.Last.Revision + 1, Holder: tail.Last.Leader, At: now,
			Reason: events.StepDown, AcquireTime: tail.Last.AcquireTime, RenewTime: now,
		})
	}
	w.append(t, e, events.Observed{
		Status: events.Held, UID: "uid", Revision: tail.Last.Revision + 2, Holder: holder, At: now,
		AcquireTime: now, RenewTime: now, LeaseDurationSeconds: &duration,
	})
}

// end makes the leader stop.
func (w *world) end(t *testing.T, e events.Election, reason events.Reason) {
	t.Helper()
	last := w.tails[e].Last
	now := time.Now()
	w.append(t, e, events.Observed{
		Status: events.Ended, UID: "uid", Revision: last.Revision + 1, Holder: last.Leader, At: now,
		Reason: reason, AcquireTime: last.AcquireTime, RenewTime: now,
	})
}

func (w *world) append(t *testing.T, e events.Election, o events.Observed) {
	t.Helper()
	tail := w.tails[e]
	list := events.Reconcile(e, tail, o, events.Reporter{Identity: "bridge", Perspective: events.ByWatcher})
	if len(list) == 0 {
		t.Fatalf("nothing to report of %+v after %+v", o, tail.Last)
	}
	var seq uint64
	testenv.Eventually(t, patience, func() (err error) {
		seq, err = w.log.Append(context.Background(), e, tail.Seq, list...)
		return err
	})
	w.tails[e] = events.Tail{Seq: seq, Last: list[len(list)-1]}
}
