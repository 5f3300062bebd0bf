package show

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew); got\n%s", file, got)
	}
}

// examples are elections in all kinds of states.
func examples(now time.Time) []events.Event {
	lease, ms, long := 15, int64(21), int64(3*time.Hour/time.Millisecond)
	return []events.Event{
		{Election: election("default", "kube-system", "cert-manager-controller"), Transition: events.NewLeader, Epoch: 7, Time: now.Add(-26 * time.Hour),
			Leader: "cert-manager-6d4cf56db6-x2x4z_a25c9c16-6bd2-4a2c", PreviousLeader: "cert-manager-6d4cf56db6-b7k9q_11f0", Reason: events.Acquired,
			LeaseDurationSeconds: &lease, LeaderlessMillis: &ms, Reporter: "cert-manager-6d4cf56db6-x2x4z_a25c9c16-6bd2-4a2c", Perspective: events.ByLeader},
		{Election: election("default", "prod", "billing.worker"), Transition: events.StoppedLeading, Epoch: 1234, Time: now.Add(-10 * time.Second),
			PreviousLeader: "billing-0_77", Reason: events.RenewDeadline, LeaseDurationSeconds: &lease, RenewTime: now.Add(-13 * time.Second),
			Reporter: "billing-1_78", Perspective: events.ByWitness},
		{Election: election("default", "prod", "scheduler"), Transition: events.NewLeader, Epoch: 2147483647, Time: now.Add(-90 * time.Second),
			Leader: "evil\x1b[2J\nname ünï 節点", Reason: events.TakenOver, Missed: 3, LeaderlessMillis: &long, Reporter: "w", Perspective: events.ByWatcher},
	}
}

func TestScreens(t *testing.T) {
	now := time.Now()
	list := examples(now)
	for _, width := range []int{0, 80, 160} {
		name := fmt.Sprint(width)
		if width == 0 {
			name = "pipe"
		}
		for _, format := range []Format{Table, Wide} {
			g, rows := leadersTable(list, format, width, now)
			text := g.text(rows)
			golden(t, fmt.Sprintf("leaders-%s-%s.txt", format, name), ansi.Strip(text))

			screen, out := terminal(width, 24, colorprofile.NoTTY)
			p := &eventPrinter{format: format, screen: screen}
			fixed := list
			for i := range fixed {
				fixed[i].Time = time.Date(2026, 1, 31, 12, 0, i, 0, time.Local)
			}
			if err := p.pastAt(fixed, fixed[2].Time.Add(5*time.Minute)); err != nil {
				t.Fatal(err)
			}
			golden(t, fmt.Sprintf("events-%s-%s.txt", format, name), out.String())
			list = examples(now)
		}
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) events.Event {
			name := rapid.StringMatching(`[a-z0-9-]{1,63}`)
			return events.Event{
				Election: election("c", name.Draw(t, "namespace"), name.Draw(t, "lease")), Transition: events.NewLeader,
				Epoch: rapid.Uint64Range(1, events.MaxEpoch).Draw(t, "epoch"), Time: now, Leader: rapid.String().Draw(t, "leader"), Reason: events.Acquired,
			}
		}), 1, 5).Draw(t, "list")
		width := rapid.IntRange(80, 200).Draw(t, "width")
		g, rows := leadersTable(list, Table, width, now)
		for line := range strings.Lines(g.text(rows)) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("%d columns in a terminal of %d: %q", w, width, line)
			}
		}
		if n := strings.Count(g.text(rows), "\n"); n != len(list)+1 {
			t.Fatalf("%d lines for %d elections", n, len(list))
		}
	})
}

func TestColours(t *testing.T) {
	for _, tc := range []struct {
		name    string
		profile colorprofile.Profile
		colours bool
	}{
		{"terminal", colorprofile.ANSI, true},
		{"terminal without colours", colorprofile.NoTTY, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			screen, out := terminal(80, 24, tc.profile)
			if err := screen.print(styleBad.Styled("nobody") + "\n"); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(out.String(), "\x1b["); got != tc.colours {
				t.Errorf("colours: %v in %q", got, out.String())
			}
		})
	}
	t.Run("pipe", func(t *testing.T) {
		screen, out := pipe()
		if err := screen.print(styleBad.Styled("nobody") + "\n"); err != nil || out.String() != "nobody\n" {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
	t.Run("forced", func(t *testing.T) {
		t.Setenv("CLICOLOR_FORCE", "1")
		t.Setenv("TERM", "xterm")
		screen, out := pipe()
		if err := screen.print(styleBad.Styled("nobody") + "\n"); err != nil || !strings.Contains(out.String(), "\x1b[31m") {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
}
