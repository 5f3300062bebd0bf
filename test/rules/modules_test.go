package rules_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gomod is what "go mod edit -json" prints, as far as it is needed here.
type gomod struct {
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old struct{ Path string }
	}
}

func readModule(t *testing.T, folder string) gomod {
	t.Helper()
	dir := filepath.Join(root(t), folder)
	// The test cache watches only what the test itself has looked at.
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	text := goCommand(t, dir, "mod", "edit", "-json")
	var m gomod
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("read the go.mod of %s: %v", folder, err)
	}
	return m
}

func (m gomod) version(t *testing.T, path string) string {
	t.Helper()
	for _, r := range m.Require {
		if r.Path == path {
			return r.Version
		}
	}
	t.Fatalf("%s is not required", path)
	return ""
}

// The go command ignores replace directives of a dependency: whoever imports
// this module would build something else than what was tested here.
func TestMainModuleReplacesNothing(t *testing.T) {
	t.Parallel()
	for _, r := range readModule(t, ".").Replace {
		t.Errorf("go.mod replaces %s: users of this module would not get the replacement, and \"go install\" refuses such a module", r.Old.Path)
	}
}

// All modules are built by one toolchain.
func TestModulesNameOneGoVersion(t *testing.T) {
	t.Parallel()
	want := readModule(t, ".").Go
	others, err := filepath.Glob(filepath.Join(root(t), "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob(filepath.Join(root(t), "*", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(others, tests...) {
		folder, err := filepath.Rel(root(t), filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if got := readModule(t, folder).Go; got != want {
			t.Errorf("%s/go.mod says go %s, go.mod says go %s: one checkout is built with one toolchain", folder, got, want)
		}
	}
}

// client-go v0.N belongs to Kubernetes v1.N. Tests against another version of
// the server would say little about the one that users of this client have.
func TestControlPlaneMatchesTheClient(t *testing.T) {
	t.Parallel()
	client := readModule(t, ".").version(t, "k8s.io/client-go")
	server := readModule(t, "test/controlplane").version(t, "k8s.io/kubernetes")
	minor := func(v string) string {
		_, rest, _ := strings.Cut(v, ".")
		n, _, _ := strings.Cut(rest, ".")
		return n
	}
	if minor(client) != minor(server) {
		t.Errorf("client-go %s is tested against Kubernetes %s: move both in one change", client, server)
	}
}
