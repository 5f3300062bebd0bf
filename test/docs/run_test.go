package docs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go candidates are talkative
	kubeenv.Main(m)
}

// pageTimeout bounds all commands of one page.
const pageTimeout = 4 * time.Minute

// step is a block of commands, and what it prints where the page tells.
type step struct {
	block
	output *block
}

// steps returns the blocks of a page that are to be run.
func steps(t *testing.T, page string) []step {
	t.Helper()
	var found []step
	previous := ""
	for _, b := range blocks(t, page) {
		switch b.info {
		case "sh test":
			found = append(found, step{block: b})
		case "text output":
			if previous != "sh test" {
				t.Fatalf("%s:%d: the output of what?", page, b.line)
			}
			found[len(found)-1].output = &b
		}
		previous = b.info
	}
	return found
}

// The commands of every page do what the page says.
func TestCommandsOfTheDocuments(t *testing.T) {
	ran := map[string]bool{}
	for _, page := range pages(t) {
		if all := steps(t, page); len(all) > 0 {
			ran[page] = true
			t.Run(page, func(t *testing.T) { runPage(t, all) })
		}
	}
	for _, page := range []string{"README.md", "docs/quickstart.md", "docs/operations.md"} {
		if !ran[page] {
			t.Errorf("%s has no block that is run", page)
		}
	}
}

func runPage(t *testing.T, all []step) {
	api := kubeenv.Shared(t)
	server := natsenv.Start(t)
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(procenv.Binary(t), filepath.Join(folder, "bin", "leaderbridge")); err != nil {
		t.Fatal(err)
	}

	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for i, s := range all {
		fmt.Fprintf(&script, "echo '== %s:%d' >&2\n{\n%s} >%s\n", s.page, s.line, s.text, outputFile(i))
	}
	text := strings.ReplaceAll(script.String(), "127.0.0.1:4222", strings.TrimPrefix(server.URL(), "nats://"))
	ports := map[string]string{}
	text = regexp.MustCompile(`127\.0\.0\.1:808[1-9]\b`).ReplaceAllStringFunc(text, func(address string) string {
		if ports[address] == "" {
			port, err := testenv.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			ports[address] = fmt.Sprintf("127.0.0.1:%d", port)
		}
		return ports[address]
	})

	ctx, cancel := context.WithTimeout(t.Context(), pageTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir = folder
	cmd.Env = environment(
		"KUBECONFIG="+kubeenv.Kubeconfig(t, api.Config(), api.Namespace(t)),
		"HOME="+folder,
	)
	// What it has put into the background ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return err
	}
	cmd.Cancel = kill
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		if err := kill(); err != nil {
			t.Errorf("end what the commands have left behind: %v", err)
		}
	}
	if err != nil {
		t.Fatalf("the commands of the page: %v\n%s", err, out)
	}
	for i, s := range all {
		got, err := os.ReadFile(filepath.Join(folder, outputFile(i)))
		if err != nil {
			t.Fatal(err)
		}
		if s.output != nil && !matches(s.output.text, string(got)) {
			t.Errorf("%s:%d: it prints\n%s\nand the page says\n%s", s.page, s.output.line, got, s.output.text)
		}
	}
}

func outputFile(i int) string { return fmt.Sprintf("output.%d", i) }

// environment is this one without what would change what the commands do.
func environment(more ...string) []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LEADERBRIDGE_") && !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "OTEL_") {
			kept = append(kept, v)
		}
	}
	return append(kept, more...)
}

// matches tells whether text is as the pattern says, in which "…" stands for
// anything. Runs of blanks count as one: columns are as wide as their content.
func matches(pattern, text string) bool {
	quoted := regexp.QuoteMeta(strings.Join(strings.Fields(pattern), " "))
	all := regexp.MustCompile("^" + strings.ReplaceAll(quoted, "…", ".*") + "$")
	return all.MatchString(strings.Join(strings.Fields(text), " "))
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"a  b\nc", "a b\n  c\n", true},
		{"a … c", "a b b c", true},
		{"term …, after …", "term 2, after 11ms", true},
		{"a.b", "axb", false},
		{"a", "a b", false},
	} {
		if got := matches(tt.pattern, tt.text); got != tt.want {
			t.Errorf("%q matches %q: %t, want %t", tt.pattern, tt.text, got, tt.want)
		}
	}
}
