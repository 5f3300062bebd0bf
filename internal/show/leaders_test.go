package show

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"sigs.k8s.io/yaml"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
)

func TestLeaders(t *testing.T) {
	w := newWorld(t)
	w.lead(t, election("default", "prod", "scheduler"), "pod-a_1")
	w.lead(t, election("default", "prod", "scheduler"), "pod-b_2")
	w.lead(t, election("default", "prod", "billing.worker"), "billing_1")
	w.end(t, election("default", "prod", "billing.worker"), events.Unhealthy)
	w.lead(t, election("eu", "staging", "scheduler"), "pod-c_1")
	reader := w.reader(t)

	show := func(t *testing.T, choice Selection, format Format) (string, error) {
		t.Helper()
		screen, out := pipe()
		err := Leaders(t.Context(), reader, choice, format, patience, screen)
		return out.String(), err
	}
	// columns returns the first n columns of each line.
	columns := func(text string, n int) (lines []string) {
		for line := range strings.Lines(text) {
			lines = append(lines, strings.Join(strings.Fields(line)[:n], " "))
		}
		return lines
	}

	t.Run("table", func(t *testing.T) {
		got, err := show(t, nil, Table)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"ELECTION LEADER EPOCH", "default/prod/billing.worker nobody 1", "default/prod/scheduler pod-b_2 2", "eu/staging/scheduler pod-c_1 1"}
		if have := columns(got, 3); strings.Join(have, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s", got)
		}
		if !strings.Contains(got, "unhealthy") {
			t.Errorf("no reason in\n%s", got)
		}
	})
	t.Run("selection", func(t *testing.T) {
		for _, tc := range []struct {
			choice Selection
			want   []string
		}{
			{Selection{election("", "prod", "scheduler")}, []string{"prod/scheduler"}},
			{Selection{election("", "", "scheduler")}, []string{"default/prod/scheduler", "eu/staging/scheduler"}},
			{Selection{election("eu", "", "")}, []string{"staging/scheduler"}},
			{Selection{election("", "prod", "billing.worker"), election("eu", "staging", "scheduler")}, []string{"default/prod/billing.worker", "eu/staging/scheduler"}},
		} {
			got, err := show(t, tc.choice, Table)
			if err != nil {
				t.Error(err)
			}
			if have := columns(got, 1)[1:]; strings.Join(have, " ") != strings.Join(tc.want, " ") {
				t.Errorf("%v: got %v, want %v", tc.choice, have, tc.want)
			}
		}
	})
	t.Run("one cluster goes without saying", func(t *testing.T) {
		got, _ := show(t, Selection{election("default", "", "")}, Table)
		if strings.Contains(got, "default/") {
			t.Errorf("got\n%s", got)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		got, err := show(t, Selection{election("", "prod", "scheduler"), election("eu", "prod", "nope"), election("", "prod", "neither")}, Table)
		if err == nil || err.Error() != "the log knows nothing of eu/prod/nope, prod/neither" {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(got, "pod-b_2") {
			t.Errorf("the known one is not shown:\n%s", got)
		}
		if got, err := show(t, Selection{election("", "nope", "")}, Table); err != nil || got != "no elections in the log\n" {
			t.Errorf("a pattern without a match: %q, %v", got, err)
		}
	})
	t.Run("json and yaml", func(t *testing.T) {
		text, err := show(t, nil, JSON)
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := show(t, nil, YAML)
		if err != nil {
			t.Fatal(err)
		}
		for format, decode := range map[string]func(any) error{
			"json": func(v any) error { return json.Unmarshal([]byte(text), v) },
			"yaml": func(v any) error { return yaml.UnmarshalStrict([]byte(asYAML), v) },
		} {
			var got []leader
			if err := decode(&got); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if len(got) != 3 {
				t.Fatalf("%s: %d elections", format, len(got))
			}
			vacant, led := got[0], got[1]
			if vacant.Leader != "" || vacant.PreviousLeader != "billing_1" || vacant.Reason != events.Unhealthy || *vacant.LeaseLeftSeconds != 0 {
				t.Errorf("%s: %+v", format, vacant)
			}
			if led.Leader != "pod-b_2" || led.Epoch != 2 || led.Cluster != "default" || *led.LeaseLeftSeconds != 15 || time.Since(led.Since) > time.Minute {
				t.Errorf("%s: %+v", format, led)
			}
		}
	})
	t.Run("empty list", func(t *testing.T) {
		if got, err := show(t, Selection{election("", "nope", "")}, JSON); err != nil || got != "[]\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A log that cannot be read now is told, not waited for.
func TestLeadersWithoutALog(t *testing.T) {
	for _, tc := range []struct {
		name   string
		option natsenv.Option
		want   error
	}{
		{"no stream", func(*server.Options) {}, events.ErrNoStream},
		{"no JetStream", func(o *server.Options) { o.JetStream = false }, events.ErrNoJetStream},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := natsenv.Start(t, tc.option)
			log, err := events.Open(t.Context(), srv.Connect(t), events.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			screen, _ := pipe()
			if err := Leaders(t.Context(), log, nil, Table, patience, screen); !errors.Is(err, tc.want) {
				t.Errorf("leaders: %v", err)
			}
			if err := Events(t.Context(), log, Query{Last: 5, Patience: patience}, Table, screen, quiet()); !errors.Is(err, tc.want) {
				t.Errorf("events: %v", err)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		w := newWorld(t)
		reader := w.reader(t)
		w.srv.Stop()
		screen, _ := pipe()
		start := time.Now()
		if err := Leaders(t.Context(), reader, nil, Table, time.Second, screen); !errors.Is(err, errStalled) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > patience {
			t.Errorf("took %s", took)
		}
	})
}

func BenchmarkTenThousandLeaders(b *testing.B) {
	srv := natsenv.Start(b)
	conn := srv.Connect(b)
	log, err := events.Open(b.Context(), conn, events.Options{})
	if err != nil {
		b.Fatal(err)
	}
	const elections = 10_000
	for i := range elections {
		e := election("default", fmt.Sprintf("namespace-%d", i/100), fmt.Sprintf("lease-%d", i))
		at := time.Now()
		list := events.Reconcile(e, events.Tail{}, events.Observed{
			Status: events.Held, UID: "a7d1b0a4-1f0c-4d0e-9f43-000000000000", Revision: 1, Holder: fmt.Sprintf("pod-%d_5f1c0e9a", i), At: at, AcquireTime: at, RenewTime: at,
		}, events.Reporter{Identity: "bridge", Perspective: events.ByWatcher})
		if _, err := log.Append(b.Context(), e, 0, list...); err != nil {
			b.Fatal(err)
		}
	}
	reader, err := events.Open(b.Context(), conn, events.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		screen, out := pipe()
		if err := Leaders(b.Context(), reader, nil, Table, patience, screen); err != nil {
			b.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != elections+1 {
			b.Fatalf("%d lines", n)
		}
	}
}
