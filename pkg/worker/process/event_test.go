//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

const anEvent = `{"specversion":"1.0","id":"out","source":"/test","type":"test.v1"}`

// eventRun runs a shell script for one event.
func eventRun(t *testing.T, c Command, in string) (published []string, err error) {
	t.Helper()
	err = newRunner(t, c).HandleEvent(t.Context(), newGrant(t).Term(), []byte(in), func(_ context.Context, e []byte) error {
		published = append(published, string(e))
		return nil
	})
	return published, err
}

func TestAnEventGoesInAndEventsComeOut(t *testing.T) {
	var logged bytes.Buffer
	c := shell(`read -r event; echo "$event"; echo progress; echo '{"id":"x"}'; echo "$LEADERBRIDGE_EPOCH" >&2; echo '` + anEvent + `'`)
	c.Prefix, c.Stderr, c.Logger = "> ", &bytes.Buffer{}, slog.New(slog.NewTextHandler(&logged, nil))
	// Larger than a pipe.
	in := strings.Replace(anEvent, "out", strings.Repeat("i", 200<<10), 1)
	published, err := eventRun(t, c, in)
	if err != nil || !slices.Equal(published, []string{in, anEvent}) {
		t.Errorf("published %d events: %.200q, %v", len(published), published, err)
	}
	if text := logged.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "line=progress") || !strings.Contains(text, "no CloudEvent") {
		t.Errorf("log:\n%s", text)
	}
	// Not to read it is no fault.
	if _, err := eventRun(t, shell("true"), in); err != nil {
		t.Error(err)
	}
}

func TestAFailedRunForAnEventPublishesNothing(t *testing.T) {
	var exit *ExitError
	published, err := eventRun(t, shell("echo '"+anEvent+"'; exit 3"), anEvent)
	if !errors.As(err, &exit) || exit.Code != 3 || len(published) != 0 {
		t.Errorf("exit code 3: %v, %q", err, published)
	}
	c := shell("echo '" + anEvent + "'; sleep 60")
	c.Time = 300 * time.Millisecond
	if published, err = eventRun(t, c, anEvent); !errors.Is(err, ErrTimeLimit) || len(published) != 0 {
		t.Errorf("time limit: %v, %q", err, published)
	}
	if published, err = eventRun(t, shell("head -c 17000000 /dev/zero"), anEvent); !errors.Is(err, ErrOutputLimit) || len(published) != 0 {
		t.Errorf("output limit: %v, %d events", err, len(published))
	}
	down := errors.New("no stream")
	err = newRunner(t, shell("echo '"+anEvent+"'")).HandleEvent(t.Context(), newGrant(t).Term(), []byte(anEvent),
		func(context.Context, []byte) error { return down })
	if !errors.Is(err, down) {
		t.Errorf("publish fails: %v", err)
	}
}

func TestARunForAnEventIsStoppedWithItsTerm(t *testing.T) {
	g := newGrant(t)
	why := errors.New("the leader steps down")
	c := shell("echo '" + anEvent + "'; read -r event; trap 'exit 0' TERM; echo ready >&2; sleep 60 & wait")
	began := make(chan struct{})
	c.Stderr = writerFunc(func(b []byte) (int, error) {
		close(began)
		return len(b), nil
	})
	go func() {
		<-began
		g.Drain(why)
	}()
	err := newRunner(t, c).HandleEvent(g.Context(), g.Term(), []byte(anEvent), func(context.Context, []byte) error {
		t.Error("published")
		return nil
	})
	if !errors.Is(err, why) {
		t.Errorf("stopped: %v", err)
	}
}
