package natsconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// asText shows options with all their fields, for comparing.
func asText(o Options) string { return fmt.Sprintf("%+v", o) }

func TestWaitDoublesUpToTheBound(t *testing.T) {
	for _, tc := range []struct {
		n         int
		low, high time.Duration
	}{
		{1, 50 * time.Millisecond, 100 * time.Millisecond},
		{2, 100 * time.Millisecond, 200 * time.Millisecond},
		{6, 1600 * time.Millisecond, 3200 * time.Millisecond},
		{7, 2 * time.Second, 4 * time.Second},
		{1000, 2 * time.Second, 4 * time.Second},
	} {
		if low, high := wait(tc.n, 0), wait(tc.n, 1); low != tc.low || high != tc.high {
			t.Errorf("wait %d: %s to %s, want %s to %s", tc.n, low, high, tc.low, tc.high)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1<<40).Draw(t, "n")
		r := rapid.Float64Range(0, 1).Draw(t, "random")
		if w := wait(n, r); w < firstWait/2 || w > longestWait {
			t.Fatalf("wait(%d, %v) = %s", n, r, w)
		}
	})
}

func TestJournal(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	auth := errors.New("nats: Authorization Violation")
	badCA := fmt.Errorf("%w: %w", nats.ErrTLS, errors.New("unknown authority"))
	type step struct {
		failed error // nil: connected
		want   entry
	}
	for name, steps := range map[string][]step{
		"there at once":        {{nil, entryConnected}},
		"not there at first":   {{nats.ErrNoServers, entryUnreachable}, {refused, silent}, {refused, silent}, {nil, entryConnected}},
		"refused at first":     {{auth, entryRefused}, {auth, silent}, {nil, entryConnected}},
		"restart":              {{nil, entryConnected}, {io.EOF, entryLost}, {refused, silent}, {refused, silent}, {nil, entryBack}},
		"no reason known":      {{nil, entryConnected}, {errNil, entryLost}, {nil, entryBack}},
		"each outage is told":  {{nil, entryConnected}, {io.EOF, entryLost}, {nil, entryBack}, {io.EOF, entryLost}, {nil, entryBack}},
		"new cause":            {{nil, entryConnected}, {io.EOF, entryLost}, {refused, silent}, {auth, entryRefused}, {auth, silent}, {badCA, entryRefused}, {auth, silent}, {refused, silent}, {nil, entryBack}},
		"cause comes first":    {{nil, entryConnected}, {nats.ErrAuthExpired, entryLost}, {io.EOF, silent}, {nil, entryBack}},
		"told anew next time":  {{auth, entryRefused}, {nil, entryConnected}, {auth, entryLost}, {auth, silent}},
		"connected twice":      {{nil, entryConnected}, {nil, silent}},
		"waits, then refused":  {{refused, entryUnreachable}, {badCA, entryRefused}, {badCA, silent}, {nil, entryConnected}},
		"many servers in turn": {{nil, entryConnected}, {io.EOF, entryLost}, {auth, entryRefused}, {refused, silent}, {auth, silent}, {refused, silent}},
	} {
		t.Run(name, func(t *testing.T) {
			var j journal
			now := time.Now()
			for i, s := range steps {
				now = now.Add(time.Second)
				var got entry
				switch {
				case s.failed == nil:
					got, _ = j.connected(now)
				case errors.Is(s.failed, errNil):
					got = j.failed(now, nil)
				default:
					got = j.failed(now, s.failed)
				}
				if got != s.want {
					t.Errorf("step %d (%v): got %d, want %d", i, s.failed, got, s.want)
				}
			}
		})
	}
}

// errNil stands for a loss without a cause in the table above.
var errNil = errors.New("no cause")

func TestJournalTellsHowLongTheLinkWasAway(t *testing.T) {
	var j journal
	start := time.Now()
	j.connected(start)
	j.failed(start.Add(10*time.Second), io.EOF)
	j.failed(start.Add(11*time.Second), io.EOF)
	if _, away := j.connected(start.Add(15 * time.Second)); away != 5*time.Second {
		t.Errorf("away %s, want 5s", away)
	}
}

func TestDenied(t *testing.T) {
	now := time.Now()
	publish := func(subject string) error {
		return fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, subject)
	}
	subscribe := func(subject string) error {
		return fmt.Errorf("%w: Permissions Violation for Subscription to %q", nats.ErrPermissionViolation, subject)
	}
	var d denied
	if refusal, _ := d.add(now, nats.ErrSlowConsumer); refusal {
		t.Error("a slow consumer is no refusal")
	}
	for i, want := range []bool{true, false} {
		if refusal, isNew := d.add(now, publish("a.b")); !refusal || isNew != want {
			t.Errorf("time %d: %v, %v", i, refusal, isNew)
		}
	}
	d.add(now.Add(time.Second), publish("c"))
	check := func(d denied, at time.Duration, subject, inbox, want string) {
		t.Helper()
		got := "nothing"
		if err := d.find(now.Add(at), subject, inbox); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("at %s, %q: got %q, want %q", at, subject, got, want)
		}
	}
	check(d, time.Second, "a.b", "_INBOX", `"a.b"`)
	check(d, time.Second, "a", "_INBOX", "nothing")
	check(d, time.Second, "", "_INBOX", `"c"`)
	check(d, refusalAge+time.Second/2, "a.b", "_INBOX", "nothing")

	d.add(now, subscribe("_INBOX.x7.*"))
	check(d, time.Hour, "other", "_INBOX", `Subscription to "_INBOX.x7.*"`)
	check(d, time.Hour, "other", "_MINE", "nothing")

	for i := range 10 * maxRefusals {
		d.add(now, publish(fmt.Sprint(i)))
	}
	if n := len(d.publish); n > maxRefusals {
		t.Errorf("remembers %d refusals", n)
	}
}
