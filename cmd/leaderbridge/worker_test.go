package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong is said in one line, before anything is tried.
func TestWorkerBadInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	component := filepath.Join(dir, "component.wasm")
	if err := os.WriteFile(component, []byte("\x00asm\x0d\x00\x01\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEADERBRIDGE_ELECTION", "prod/scheduler")
	t.Setenv("LEADERBRIDGE_ROLE", "sync")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing to run":                {nil, "there is nothing to run"},
		"all elections":                 {[]string{"-e", "prod/*", "--", "true"}, "without *"},
		"no module":                     {[]string{"--wasm", filepath.Join(dir, "none")}, "no such file"},
		"not a module":                  {[]string{"--wasm", file}, "malformed"},
		"a component":                   {[]string{"--wasm", component}, "component"},
		"a flag of modules":             {[]string{"--env", "A=1", "--", "true"}, "--env is for modules: it needs --wasm"},
		"a flag of commands":            {[]string{"--wasm", file, "--grace", "1s"}, "--grace is for commands"},
		"a flag of events":              {[]string{"--publish", "a.b", "--", "true"}, "--publish needs --on event"},
		"a flag of terms":               {[]string{"--on", "event", "--restart", "never", "--", "true"}, "--restart is not for --on event"},
		"on what":                       {[]string{"--on", "tuesday", "--", "true"}, "must be one of term, event"},
		"a mount of nothing":            {[]string{"--wasm", file, "--mount", filepath.Join(dir, "none") + ":/data"}, "no such file"},
		"a mount of a file":             {[]string{"--wasm", file, "--mount", file + ":/data"}, "is not a directory"},
		"a mount to nowhere":            {[]string{"--wasm", file, "--mount", dir}, "want HOST:GUEST"},
		"a mount to a relative path":    {[]string{"--wasm", file, "--mount", dir + ":data:rw"}, "want HOST:GUEST"},
		"a variable without a name":     {[]string{"--wasm", file, "--env", "=x"}, "want NAME=VALUE"},
		"a variable that is not there":  {[]string{"--wasm", file, "--env", "LEADERBRIDGE_TEST_NONE"}, "there is no such variable"},
		"too little memory":             {[]string{"--wasm", file, "--memory", "1Ki"}, "from 64Ki to 4Gi"},
		"too much memory":               {[]string{"--wasm", file, "--memory", "5Gi"}, "from 64Ki to 4Gi"},
		"memory in words":               {[]string{"--wasm", file, "--memory", "much"}, "--memory"},
		"no time":                       {[]string{"--on", "event", "--event-timeout", "0s", "--", "true"}, "must be above zero"},
		"a subject with a wildcard":     {[]string{"--on", "event", "--publish", "a.*", "--", "true"}, "is no subject"},
		"a subject of the log":          {[]string{"--on", "event", "--publish", "leaderbridge.event.a", "--", "true"}, "leaderbridge's own"},
		"a bucket with a dot":           {[]string{"--on", "event", "--positions-bucket", "a.b", "--", "true"}, "--positions-bucket"},
		"several faults of one setting": {[]string{"--wasm", file, "--mount", dir + ":/a," + dir}, "want HOST:GUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := execute(t, append([]string{"worker"}, c.args...)...)
			if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d, wrote %q and %q; want 2 and one line with %q", code, out, errs, c.want)
			}
		})
	}
}

// The shell completes files for --wasm and values where there is a choice.
func TestWorkerCompletion(t *testing.T) {
	for flag, want := range map[string]string{
		"--wasm":       "wasm\n:8\n", // files that end so
		"--mount":      ":16\n",      // directories
		"--wasm-cache": ":16\n",
		"--on":         "term\nevent\n:4\n",
		"--restart":    "on-failure\nalways\nnever\n:4\n",
		"--role":       ":4\n",
	} {
		code, out, _ := execute(t, "__complete", "worker", flag, "")
		if code != 0 || out != want {
			t.Errorf("%s: exit code %d, %q, want %q", flag, code, out, want)
		}
	}
}
