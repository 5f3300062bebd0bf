package wasm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

var in = []byte(`{"specversion":"1.0","id":"in","source":"/test","type":"test.v1"}`)

func TestEventsGoInAndComeOut(t *testing.T) {
	var logged syncBuffer
	odd := []string{
		`{"specversion":"1.0"`, `{"specversion":"1.0","id":"x"}`, `{"specversion":"1.0","id":"","source":"/a","type":"b"}`,
		`[]`, `null`, `{}`, "\xff\xfe", `{"specversion":"2.0","id":"x","source":"/a","type":"b"}`, "progress: 50 %",
	}
	exact := `{ "type":"b", "specversion":"1.0",  "id":"x","source":"/a","data":{"z":1,"a":1.50} }`
	m := newGuest(t, Options{
		Args:   slices.Concat([]string{"event", "event", ""}, odd, []string{exact, "event"}),
		Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	g := newGrant(t, time.Minute, 0)
	for range 2 { // a module can be used again
		var published []string
		err := m.HandleEvent(t.Context(), g.Term(), in, func(_ context.Context, e []byte) error {
			published = append(published, string(e))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		of := func(n int) string {
			return fmt.Sprintf(`{"specversion":"1.0","id":"in.%d","source":"/guest","type":"guest.v1","data":{"epoch":"7"}}`, n)
		}
		if want := []string{of(0), exact, of(len(odd) + 3)}; !slices.Equal(published, want) {
			t.Errorf("published\n%s\nwant\n%s", strings.Join(published, "\n"), strings.Join(want, "\n"))
		}
	}
	if n := strings.Count(logged.String(), "\n"); n != 2*len(odd) {
		t.Errorf("%d lines logged, want %d:\n%s", n, 2*len(odd), logged.String())
	}
	if !strings.Contains(logged.String(), "progress: 50 %") {
		t.Errorf("log:\n%s", logged.String())
	}
}

func TestAFailedRunPublishesNothing(t *testing.T) {
	run := func(m *Module, g *worker.Grant) error {
		return m.HandleEvent(g.Context(), g.Term(), in, func(context.Context, []byte) error {
			t.Error("published")
			return nil
		})
	}
	m := newGuest(t, Options{Args: []string{"event", "event", "fail"}})
	var exit *ExitError
	if err := run(m, newGrant(t, time.Minute, 0)); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("exit code: %v", err)
	}
	m = newGuest(t, Options{Args: []string{"event", "event", "spin"}, Time: time.Second})
	if err := run(m, newGrant(t, time.Minute, 0)); !errors.Is(err, ErrTimeLimit) {
		t.Errorf("time limit: %v", err)
	}
	m = newGuest(t, Options{Args: []string{"event", "event", "spin"}, Time: time.Minute})
	if err := run(m, newGrant(t, 3*time.Second, 2*time.Second)); err == nil || errors.Is(err, ErrTimeLimit) {
		t.Errorf("end of the term: %v", err)
	}
	m = newModule(t, flooding(), Options{Memory: 8 << 20})
	if err := run(m, newGrant(t, time.Minute, 0)); !errors.Is(err, ErrOutputLimit) {
		t.Errorf("output limit: %v", err)
	}
}

func TestPublishingStopsWithTheTermAndWithAnError(t *testing.T) {
	m := newGuest(t, Options{Args: []string{"event", "event", "event"}})
	g := newGrant(t, time.Minute, 0)
	down := errors.New("no stream")
	n := 0
	err := m.HandleEvent(t.Context(), g.Term(), in, func(context.Context, []byte) error { n++; return down })
	if !errors.Is(err, down) || n != 1 {
		t.Errorf("handle = %v after %d calls", err, n)
	}
	n = 0
	err = m.HandleEvent(t.Context(), g.Term(), in, func(context.Context, []byte) error {
		n++
		g.End(errors.New("the leader stopped"))
		return nil
	})
	if !errors.Is(err, worker.ErrTermOver) || n != 1 {
		t.Errorf("handle = %v after %d calls", err, n)
	}
}

func BenchmarkHandleEvent(b *testing.B) {
	m, err := New(b.Context(), guest, Options{Args: []string{"event", "event"}})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(b.Context())
	t := worker.NewGrant(b.Context(), worker.Term{}, worker.Now().Add(time.Hour), 0).Term()
	for b.Loop() {
		if err := m.HandleEvent(b.Context(), t, in, func(context.Context, []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
