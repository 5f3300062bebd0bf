package show

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// summary is what JSON lines say, in short.
func summary(t *testing.T, text string) (got []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		e, err := events.Decode(nats.Header{"Content-Type": {"application/cloudevents+json"}}, []byte(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, fmt.Sprintf("%s %d %s", e.Election.Lease, e.Epoch, e.Transition))
	}
	return got
}

func TestEventsOfThePast(t *testing.T) {
	w := newWorld(t)
	rare, busy := election("default", "prod", "rare"), election("default", "prod", "busy")
	w.lead(t, rare, "r_1")
	w.lead(t, rare, "r_2")
	// More than the first look at the end of the log reaches.
	for i := range 30 {
		w.lead(t, busy, fmt.Sprintf("b_%d", i))
	}
	between := time.Now()
	w.lead(t, busy, "b_last")
	reader := w.reader(t)

	for _, tc := range []struct {
		name string
		q    Query
		want []string
	}{
		{"last", Query{Last: 4}, []string{"busy 30 new-leader", "busy 30 stopped-leading", "busy 31 became-leader", "busy 31 new-leader"}},
		{"last of one election", Query{Last: 2, Choice: Selection{rare}}, []string{"rare 2 became-leader", "rare 2 new-leader"}},
		{"last of several, far back", Query{Last: 2, Choice: Selection{rare, election("", "prod", "none")}}, []string{"rare 2 became-leader", "rare 2 new-leader"}},
		{"last of a kind", Query{Last: 2, Types: []events.Transition{events.StoppedLeading}}, []string{"busy 29 stopped-leading", "busy 30 stopped-leading"}},
		{"all of a kind", Query{Choice: Selection{rare}, Types: []events.Transition{events.NewLeader, events.StoppedLeading}},
			[]string{"rare 1 new-leader", "rare 1 stopped-leading", "rare 2 new-leader"}},
		{"more than there are", Query{Last: 1000, Choice: Selection{election("", "", "rare")}},
			[]string{"rare 1 became-leader", "rare 1 new-leader", "rare 1 stopped-leading", "rare 2 became-leader", "rare 2 new-leader"}},
		{"since", Query{Since: between}, []string{"busy 30 stopped-leading", "busy 31 became-leader", "busy 31 new-leader"}},
		{"last since", Query{Since: between, Last: 1}, []string{"busy 31 new-leader"}},
		{"none", Query{Last: 3, Choice: Selection{election("", "prod", "none")}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			screen, out := pipe()
			tc.q.Patience = patience
			if err := Events(t.Context(), reader, tc.q, JSON, screen, quiet()); err != nil {
				t.Fatal(err)
			}
			if got := summary(t, out.String()); strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		screen, out := pipe()
		if err := Events(t.Context(), reader, Query{Patience: patience}, JSON, screen, quiet()); err != nil {
			t.Fatal(err)
		}
		if got, want := len(summary(t, out.String())), 5+2+3*30; got != want {
			t.Errorf("%d events, want %d", got, want)
		}
	})
	t.Run("yaml", func(t *testing.T) {
		screen, out := pipe()
		if err := Events(t.Context(), reader, Query{Last: 2, Patience: patience}, YAML, screen, quiet()); err != nil {
			t.Fatal(err)
		}
		docs := strings.Split(strings.TrimPrefix(out.String(), "---\n"), "---\n")
		if len(docs) != 2 {
			t.Fatalf("%d documents in\n%s", len(docs), out)
		}
		var e struct {
			Type string `json:"type"`
			Data struct {
				Leader string `json:"leader"`
			} `json:"data"`
		}
		if err := yaml.Unmarshal([]byte(docs[1]), &e); err != nil || e.Type != "io.leaderbridge.new-leader.v1" || e.Data.Leader != "b_last" {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// following runs Events until the test ends, which must end it without an
// error.
func following(t *testing.T, log *events.Log, q Query, format Format, logger *slog.Logger) *sink {
	t.Helper()
	screen, out := pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	q.Follow = true
	go func() { ended <- Events(ctx, log, q, format, screen, logger) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the end of following: %v", err)
		}
	})
	return out
}

func TestFollowGoesOnAfterAnOutage(t *testing.T) {
	w := newWorld(t)
	e := election("default", "prod", "scheduler")
	w.lead(t, e, "a")
	w.lead(t, e, "b")
	out := following(t, w.reader(t), Query{Last: 1, Patience: time.Nanosecond}, JSON, quiet())
	out.waitFor(t, `"new-leader"`[1:])
	w.lead(t, e, "c")
	out.waitFor(t, `uid.3.new-leader`)
	w.srv.Restart(t)
	w.lead(t, e, "d")
	out.waitFor(t, `uid.4.new-leader`)
	want := []string{"scheduler 2 new-leader"}
	for epoch := 2; epoch < 4; epoch++ {
		want = append(want, fmt.Sprintf("scheduler %d stopped-leading", epoch), fmt.Sprintf("scheduler %d became-leader", epoch+1), fmt.Sprintf("scheduler %d new-leader", epoch+1))
	}
	if got := summary(t, out.String()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFollowAsATable(t *testing.T) {
	w := newWorld(t)
	e := election("default", "prod", "scheduler")
	w.lead(t, e, "pod-a_1")
	out := following(t, w.reader(t), Query{Last: 10}, Table, quiet())
	out.waitFor(t, "new-leader")
	w.lead(t, e, "a-much-longer-name-than-the-one-before_2")
	out.waitFor(t, "new-leader       a-much-longer")
	var starts []int
	for line := range strings.Lines(out.String()) {
		if at := strings.Index(line, "prod/scheduler"); at >= 0 {
			starts = append(starts, at)
		}
	}
	if fmt.Sprint(starts) != strings.ReplaceAll(fmt.Sprint(make([]int, 5)), "0", fmt.Sprint(strings.Index(out.String(), "ELECTION"))) {
		t.Errorf("the columns do not stand under each other: %v in\n%s", starts, out)
	}
}

func TestFollowWaitsForTheLog(t *testing.T) {
	w := newWorld(t)
	if err := w.srv.JetStream(t).DeleteStream(t.Context(), events.DefaultStream); err != nil {
		t.Fatal(err)
	}
	var told sink
	out := following(t, w.reader(t), Query{Last: 10}, Table, slog.New(slog.NewTextHandler(&told, nil)))
	told.waitFor(t, "the log cannot be read now", "does not exist")
	if err := w.log.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.lead(t, election("default", "prod", "scheduler"), "pod-a_1")
	out.waitFor(t, "pod-a_1")
}

// What is no event, and what retention removed, is told beside the events.
func TestOddMessagesAreToldBeside(t *testing.T) {
	w := newWorld(t)
	e := election("default", "prod", "scheduler")
	w.lead(t, e, "pod-a_1")
	js := w.srv.JetStream(t)
	if _, err := js.Publish(t.Context(), e.Subject(events.DefaultPrefix, events.NewLeader), []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	var told sink
	screen, out := pipe()
	if err := Events(t.Context(), w.reader(t), Query{Patience: patience}, JSON, screen, slog.New(slog.NewTextHandler(&told, nil))); err != nil {
		t.Fatal(err)
	}
	if got := summary(t, out.String()); len(got) != 2 {
		t.Errorf("got %q", got)
	}
	if n := strings.Count(told.String(), "a message in the log is no event"); n != 1 {
		t.Errorf("told %d times:\n%s", n, told.String())
	}
}

func TestOutputThatFailsEndsIt(t *testing.T) {
	w := newWorld(t)
	w.lead(t, election("default", "prod", "scheduler"), "pod-a_1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(read.Close(), write.Close()); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(*Screen) error{
		"events":  func(s *Screen) error { return Events(t.Context(), w.reader(t), Query{Follow: true}, JSON, s, quiet()) },
		"leaders": func(s *Screen) error { return WatchLeaders(t.Context(), w.reader(t), nil, JSON, s, quiet()) },
	} {
		if err := run(NewScreen(write)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
