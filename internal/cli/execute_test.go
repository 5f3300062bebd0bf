package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// sample is a root command with what the real ones have.
func sample(body func(s *settings) error) *cobra.Command {
	var s settings
	root := &cobra.Command{Use: "leaderbridge", Short: "sample"}
	sub := &cobra.Command{
		Use:   "run",
		Short: "run it",
		RunE: func(cmd *cobra.Command, args []string) error {
			s.args = args
			return body(&s)
		},
	}
	f := sub.Flags()
	f.DurationVar(&s.lease, "lease-duration", 15*time.Second, "how long a `duration` is")
	f.StringSliceVar(&s.urls, "nats-url", []string{"nats://127.0.0.1:4222"}, "servers")
	AlsoEnv(f, "nats-url", "NATS_URL")
	f.StringVar(&s.name, "name", "", "name")
	ChoiceVarP(f, &s.output, "output", "o", "table", "form", "table", "json")
	s.logging.AddFlags(root.PersistentFlags())
	root.AddCommand(sub)
	Prepare(root)
	return root
}

type settings struct {
	lease   time.Duration
	urls    []string
	name    string
	output  string
	logging Logging
	args    []string
}

func execute(t *testing.T, root *cobra.Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Execute(context.Background(), root, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodesAndMessages(t *testing.T) {
	plain := errors.New("connect to NATS: refused")
	for _, tc := range []struct {
		name   string
		args   string
		env    string
		result error
		code   int
		stderr string
	}{
		{name: "success", args: "run"},
		{name: "failure", args: "run", result: plain, code: 1, stderr: "leaderbridge: connect to NATS: refused\n"},
		{name: "bad input found late", args: "run", result: Usagef("--name: must not be empty"), code: 2, stderr: "leaderbridge: --name: must not be empty\n"},
		{name: "several faults, one line each", args: "run", result: Usage(errors.Join(errors.New("a is bad"), errors.New("b is bad"))), code: 2, stderr: "leaderbridge: a is bad\nleaderbridge: b is bad\n"},
		{name: "own code", args: "run", result: Exit(4, plain), code: 4, stderr: "leaderbridge: connect to NATS: refused\n"},
		{name: "own code without a message", args: "run", result: Exit(77, nil), code: 77},
		{name: "no fault at all", args: "run", result: Usage(nil)},
		{name: "unknown flag", args: "run --nope", code: 2, stderr: "leaderbridge: unknown flag: --nope (see leaderbridge run --help)\n"},
		{name: "bad value", args: "run --lease-duration=x", code: 2, stderr: "leaderbridge: invalid argument \"x\" for \"--lease-duration\" flag: time: invalid duration \"x\" (see leaderbridge run --help)\n"},
		{name: "bad choice", args: "run -o xml", code: 2, stderr: "leaderbridge: invalid argument \"xml\" for \"-o, --output\" flag: must be one of table, json (see leaderbridge run --help)\n"},
		{name: "bad root flag", args: "run --log-level=loud", code: 2, stderr: "leaderbridge: invalid argument \"loud\" for \"--log-level\" flag: must be one of debug, info, warn, error (see leaderbridge run --help)\n"},
		{name: "unknown command", args: "runn --lease-duration=1s", code: 2, stderr: "leaderbridge: unknown command \"runn\" for \"leaderbridge\": did you mean run?\n"},
		{name: "unknown command without a likeness", args: "xyzzy", code: 2, stderr: "leaderbridge: unknown command \"xyzzy\" for \"leaderbridge\"\n"},
		{name: "argument too many", args: "run x", code: 2, stderr: "leaderbridge: unexpected argument \"x\"\n"},
		{name: "bad variable", args: "run", env: "LEADERBRIDGE_LEASE_DURATION=x", code: 2, stderr: "leaderbridge: invalid value \"x\" in the environment variable LEADERBRIDGE_LEASE_DURATION: time: invalid duration \"x\"\n"},
		{name: "bad variable of a root flag", args: "run", env: "LEADERBRIDGE_LOG_FORMAT=xml", code: 2, stderr: "leaderbridge: invalid value \"xml\" in the environment variable LEADERBRIDGE_LOG_FORMAT: must be one of text, json\n"},
		{name: "bad variable, overruled", args: "run --lease-duration=1s", env: "LEADERBRIDGE_LEASE_DURATION=x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(tc.env, "="); ok {
				t.Setenv(name, value)
			}
			code, stdout, stderr := execute(t, sample(func(*settings) error { return tc.result }), strings.Fields(tc.args)...)
			if code != tc.code || stderr != tc.stderr || stdout != "" {
				t.Errorf("got code %d, stdout %q, stderr %q, want %d, %q", code, stdout, stderr, tc.code, tc.stderr)
			}
		})
	}
}

func TestFlagWinsOverVariableWinsOverDefault(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		want settings
	}{
		{"defaults", nil, nil, settings{lease: 15 * time.Second, urls: []string{"nats://127.0.0.1:4222"}, output: "table"}},
		{"variables", nil, map[string]string{
			"LEADERBRIDGE_LEASE_DURATION": "8s", "LEADERBRIDGE_NATS_URL": "nats://a,nats://b", "LEADERBRIDGE_OUTPUT": "json", "LEADERBRIDGE_NAME": "x=y",
		}, settings{lease: 8 * time.Second, urls: []string{"nats://a", "nats://b"}, output: "json", name: "x=y"}},
		{"flags over variables", []string{"--lease-duration=9s", "-o", "table", "--nats-url=nats://c", "--name="}, map[string]string{
			"LEADERBRIDGE_LEASE_DURATION": "8s", "LEADERBRIDGE_NATS_URL": "nats://a,nats://b", "LEADERBRIDGE_OUTPUT": "json", "LEADERBRIDGE_NAME": "x",
		}, settings{lease: 9 * time.Second, urls: []string{"nats://c"}, output: "table"}},
		{"further variable", nil, map[string]string{"NATS_URL": "nats://d"},
			settings{lease: 15 * time.Second, urls: []string{"nats://d"}, output: "table"}},
		{"own variable first", nil, map[string]string{"NATS_URL": "nats://d", "LEADERBRIDGE_NATS_URL": "nats://e"},
			settings{lease: 15 * time.Second, urls: []string{"nats://e"}, output: "table"}},
		{"empty is absent", nil, map[string]string{"LEADERBRIDGE_LEASE_DURATION": "", "LEADERBRIDGE_OUTPUT": ""},
			settings{lease: 15 * time.Second, urls: []string{"nats://127.0.0.1:4222"}, output: "table"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			var got settings
			code, _, stderr := execute(t, sample(func(s *settings) error { got = *s; return nil }), append([]string{"run"}, tc.args...)...)
			if code != 0 {
				t.Fatalf("code %d: %s", code, stderr)
			}
			if got.lease != tc.want.lease || strings.Join(got.urls, " ") != strings.Join(tc.want.urls, " ") ||
				got.output != tc.want.output || got.name != tc.want.name {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestHelpNamesVariables(t *testing.T) {
	t.Setenv("LEADERBRIDGE_LEASE_DURATION", "nonsense") // must not stand in the way of the help
	code, stdout, stderr := execute(t, sample(func(*settings) error { return nil }), "run", "--help")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d, stderr %q", code, stderr)
	}
	flat := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"[LEADERBRIDGE_LEASE_DURATION]", "[LEADERBRIDGE_NATS_URL, NATS_URL]", "[LEADERBRIDGE_LOG_LEVEL]"} {
		if !strings.Contains(flat, want) {
			t.Errorf("the help lacks %q:\n%s", want, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		if len(line) > plainWidth+1 {
			t.Errorf("line of %d columns: %q", len(line), line)
		}
	}
}

func TestCompletion(t *testing.T) {
	_, stdout, _ := execute(t, sample(func(*settings) error { return nil }), "__complete", "run", "--output", "")
	if !strings.HasPrefix(stdout, "table\njson\n") {
		t.Errorf("values of --output: %q", stdout)
	}
	_, stdout, _ = execute(t, sample(func(*settings) error { return nil }), "__complete", "run", "--log-level", "")
	if !strings.HasPrefix(stdout, "debug\ninfo\nwarn\nerror\n") {
		t.Errorf("values of --log-level: %q", stdout)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, stderr := execute(t, sample(func(*settings) error { return nil }), "completion", shell)
		if code != 0 || !strings.Contains(stdout, "leaderbridge") || stderr != "" {
			t.Errorf("completion %s: code %d, %d bytes, stderr %q", shell, code, len(stdout), stderr)
		}
	}
}

func TestLogger(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"run", `level=INFO msg=hello`},
		{"run --log-format=json", `"level":"INFO","msg":"hello"`},
		{"run --log-level=warn", ``},
		{"run --log-level=debug", `level=DEBUG msg=detail`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			var buf bytes.Buffer
			code, _, stderr := execute(t, sample(func(s *settings) error {
				log := s.logging.Logger(&buf)
				log.Info("hello")
				log.Debug("detail")
				return nil
			}), strings.Fields(tc.args)...)
			if code != 0 {
				t.Fatal(stderr)
			}
			if tc.want == "" && buf.Len() > 0 || !strings.Contains(buf.String(), tc.want) {
				t.Errorf("got %q, want %q", buf.String(), tc.want)
			}
		})
	}
}
