package toolenv

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// Tool is a program for tests.
type Tool struct {
	name string
	// module is the folder of its module below test.
	module string
	// pkg is its package, as the module sees it.
	pkg  string
	tags string
}

var (
	// Promtool is Prometheus's own checker. Its build leaves out the service
	// discoveries, which need the clients of every cloud.
	Promtool = Tool{"promtool", "promtool", "github.com/prometheus/prometheus/cmd/promtool", "remove_all_sd"}
	// Queries tells which metrics and labels PromQL queries use: see its
	// source in test/promtool/cmd/queries.
	Queries = Tool{"queries", "promtool", "./cmd/queries", ""}
	// OTLPReceiver is the Collector's receiver. Package otelenv starts it.
	OTLPReceiver = Tool{"otlp-receiver", "otel", "./cmd/receiver", ""}
	// Kustomize renders the overlays in deploy/.
	Kustomize = Tool{"kustomize", "manifests", "sigs.k8s.io/kustomize/kustomize/v5", ""}
	// Helm renders the chart there.
	Helm = Tool{"helm", "manifests", "helm.sh/helm/v4/cmd/helm", ""}
	// ReleaseCheck reads .goreleaser.yaml as goreleaser does.
	ReleaseCheck = Tool{"release-check", "release", "./cmd/check", ""}
)

// All are the tools that "make test-tools" builds.
var All = []Tool{Promtool, Queries, OTLPReceiver, Kustomize, Helm, ReleaseCheck}

// Path returns the program's file. The test fails if it was not built.
func (t Tool) Path(tb testing.TB) string {
	tb.Helper()
	path, _, err := t.path()
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		tb.Fatalf("find %s: %v: run \"make test-tools\"", t.name, err)
	}
	return path
}

// Build makes the program unless it is there, and says on standard error how
// long it takes. Several processes may call it at once.
func (t Tool) Build() error {
	path, module, err := t.path()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // #nosec G301 -- programs for whoever shares the cache
		return err
	}
	unlock, err := testenv.LockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "test tools: building %s (once)\n", t.name)
	began := time.Now()
	// A stop in the middle must not leave half a program under the final name.
	partial := path + ".partial"
	cmd := exec.Command("go", "build", "-C", module, "-ldflags", "-s -w", "-tags", t.tags, "-o", partial, t.pkg) // #nosec G204 -- all from the list above
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", t.name, err)
	}
	fmt.Fprintf(os.Stderr, "test tools: built %s in %s\n", t.name, time.Since(began).Round(time.Second))
	return os.Rename(partial, path)
}

// path returns where the program is or will be, and the folder of its module.
// The folder's name changes with whatever the program is made of.
func (t Tool) path() (path, module string, err error) {
	gomod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", "", fmt.Errorf("find the repository: %w", err)
	}
	module = filepath.Join(filepath.Dir(strings.TrimSpace(string(gomod))), "test", t.module)
	sum, err := contents(module)
	if err != nil {
		return "", "", fmt.Errorf("read the module of %s: %w", t.name, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("find the user cache directory: %w", err)
	}
	folder := fmt.Sprintf("%s-%.12x-%s-%s-%s", t.module, sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return filepath.Join(cache, "leaderbridge", folder, t.name), module, nil
}

// contents hashes a module's own files. Their dependencies are in go.sum.
func contents(module string) ([]byte, error) {
	sum := sha256.New()
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".mod" && ext != ".sum" {
			return nil
		}
		b, err := os.ReadFile(path) // #nosec G304 G122 -- our own source
		if err != nil {
			return err
		}
		name, err := filepath.Rel(module, path)
		fmt.Fprintf(sum, "%s %d\n%s", filepath.ToSlash(name), len(b), b)
		return err
	})
	return sum.Sum(nil), err
}
