package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

func TestLeaders(t *testing.T) {
	srv := aLog(t)
	for _, tc := range []struct {
		name   string
		args   []string
		env    map[string]string
		code   int
		stdout string
		stderr string
	}{
		{name: "all", args: []string{"--nats-url", srv.URL()}, stdout: "prod/scheduler  pod-b_2"},
		{name: "by variable", env: map[string]string{"NATS_URL": srv.URL()}, stdout: "prod/scheduler  pod-b_2"},
		{name: "own variable first", env: map[string]string{"NATS_URL": "nats://127.0.0.1:1", "LEADERBRIDGE_NATS_URL": srv.URL()}, stdout: "pod-b_2"},
		{name: "by argument", args: []string{"--nats-url", srv.URL(), "default/prod/scheduler"}, stdout: "pod-b_2"},
		{name: "by flag", args: []string{"--nats-url", srv.URL(), "--election=prod/*"}, stdout: "pod-b_2"},
		{name: "json", args: []string{"--nats-url", srv.URL(), "-o", "json"}, stdout: `"leader": "pod-b_2"`},
		{name: "yaml", args: []string{"--nats-url", srv.URL(), "-o", "yaml"}, stdout: "leader: pod-b_2"},
		{name: "wide", args: []string{"--nats-url", srv.URL(), "-o", "wide"}, stdout: "REPORTED BY"},
		{name: "unknown", args: []string{"--nats-url", srv.URL(), "prod/nope"}, code: 1, stderr: "leaderbridge: the log knows nothing of prod/nope\n"},
		{name: "another stream", args: []string{"--nats-url", srv.URL(), "--stream", "OTHER"}, code: 1, stderr: "leaderbridge: list the leaders: "},
		{name: "bad stream", args: []string{"--nats-url", srv.URL(), "--stream", "a.b"}, code: 2, stderr: "leaderbridge: open the log: stream name"},
		{name: "bad election", args: []string{"--nats-url", srv.URL(), "scheduler", "Prod/x"}, code: 2,
			stderr: "leaderbridge: election \"scheduler\": want NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME\nleaderbridge: election \"Prod/x\": "},
		{name: "bad URL", args: []string{"--nats-url", "http://u:s3cret@x"}, code: 2, stderr: "leaderbridge: --nats-url \"xxxxx@x\": scheme must be one of"},
		{name: "bad output", args: []string{"-o", "xml"}, code: 2, stderr: "leaderbridge: invalid argument \"xml\""},
		{name: "bad timeout", args: []string{"--timeout", "0s"}, code: 2, stderr: "leaderbridge: --timeout 0s: must be above zero\n"},
		{name: "missing file", args: []string{"--nats-creds", "/nope"}, code: 2, stderr: "leaderbridge: --nats-creds: open /nope: no such file or directory\n"},
		{name: "no server", args: []string{"--nats-url", "nats://127.0.0.1:1", "--timeout", "200ms"}, code: 1,
			stderr: "leaderbridge: connect to NATS at nats://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused (gave up after 200ms)\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			code, stdout, stderr := execute(t, append([]string{"leaders"}, tc.args...)...)
			if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.HasPrefix(stderr, tc.stderr) || tc.stderr == "" && stderr != "" {
				t.Errorf("code %d\n%s\nstandard error: %s", code, stdout, stderr)
			}
			if strings.Contains(stderr, "s3cret") {
				t.Error("a secret is told")
			}
		})
	}
}

func TestLeadersWatchEndsWell(t *testing.T) {
	srv := aLog(t)
	stdout, stderr, stop := start(t, "leaders", "--watch", "--nats-url", srv.URL())
	stdout.waitFor(t, "pod-b_2")
	if code := stop(); code != 0 || stderr.String() != "" {
		t.Errorf("code %d, standard error %q", code, stderr)
	}
}

// A command that goes on for ever waits for NATS, and says so once.
func TestEventsWaitForNATS(t *testing.T) {
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, stop := start(t, "events", "--nats-url", fmt.Sprintf("nats://127.0.0.1:%d", port), "--timeout", "1ms")
	stderr.waitFor(t, "NATS is not reachable")
	aLog(t, func(o *server.Options) { o.Port = port })
	stdout.waitFor(t, "pod-b_2")
	if code := stop(); code != 0 {
		t.Errorf("code %d", code)
	}
	if n := strings.Count(stderr.String(), "NATS is not reachable"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func TestEvents(t *testing.T) {
	srv := aLog(t)
	for _, tc := range []struct {
		name   string
		args   string
		code   int
		lines  int
		stderr string
	}{
		{name: "all", args: "--follow=false", lines: 5},
		{name: "last", args: "--follow=false --last 2", lines: 2},
		{name: "type", args: "--follow=false --type stopped-leading,new-leader", lines: 3},
		{name: "since", args: "--follow=false --since 1h", lines: 5},
		{name: "since days", args: "--follow=false --since 2d --last 1", lines: 1},
		{name: "since later", args: "--follow=false --since " + time.Now().Add(time.Hour).Format(time.RFC3339)},
		{name: "election", args: "--follow=false prod/other"},
		{name: "bad type", args: "--type nope", code: 2, stderr: "leaderbridge: --type \"nope\": must be became-leader, stopped-leading or new-leader\n"},
		{name: "bad last", args: "--last -1", code: 2, stderr: "leaderbridge: --last -1: must not be negative\n"},
		{name: "bad since", args: "--since yesterday", code: 2, stderr: "leaderbridge: invalid argument \"yesterday\" for \"--since\" flag: must be a duration"},
		{name: "future", args: "--since -1h", code: 2, stderr: "leaderbridge: invalid argument \"-1h\" for \"--since\" flag: must not lie in the future"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := execute(t, append([]string{"events", "-o", "json", "--nats-url", srv.URL()}, strings.Fields(tc.args)...)...)
			if code != tc.code || strings.Count(stdout, "\n") != tc.lines || !strings.HasPrefix(stderr, tc.stderr) || tc.stderr == "" && stderr != "" {
				t.Errorf("code %d\n%s\nstandard error: %s", code, stdout, stderr)
			}
			for line := range strings.Lines(stdout) {
				var e struct {
					SpecVersion string `json:"specversion"`
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil || e.SpecVersion != "1.0" {
					t.Errorf("no CloudEvent: %s", line)
				}
			}
		})
	}
}

// Only the right to read the stream is needed, and a missing right is named.
func TestReadingNeedsOnlyTheRightToRead(t *testing.T) {
	permissions := &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.STREAM.INFO." + events.DefaultStream,
			"$JS.API.DIRECT.GET." + events.DefaultStream + ".>", "$JS.API.STREAM.MSG.GET." + events.DefaultStream,
			"$JS.API.CONSUMER.CREATE." + events.DefaultStream + ".>", "$JS.API.CONSUMER.CREATE." + events.DefaultStream,
			"$JS.FC.>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}
	srv := aLog(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "s3cret"},
			{Username: "reader", Password: "s3cret", Permissions: permissions},
			{Username: "nobody", Password: "s3cret", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{">"}}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}},
		}
		o.NoAuthUser = "admin"
	})
	t.Setenv("LEADERBRIDGE_NATS_PASSWORD", "s3cret")
	for _, command := range [][]string{{"leaders"}, {"events", "--follow=false"}} {
		as := func(user string) []string {
			return slices.Concat(command, []string{"--nats-url", srv.URL(), "--timeout", "3s", "--nats-user", user})
		}
		if code, stdout, stderr := execute(t, as("reader")...); code != 0 || !strings.Contains(stdout, "pod-b_2") {
			t.Errorf("%v as a reader: code %d, %s", command, code, stderr)
		}
		code, _, stderr := execute(t, as("nobody")...)
		if code != 1 || !strings.Contains(stderr, "Permissions Violation for Publish") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v without rights: code %d, %s", command, code, stderr)
		}
	}
}
