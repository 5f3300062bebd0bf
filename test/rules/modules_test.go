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

// All modules are built by one toolchain, whose patch release a dependency may
// name.
func TestModulesNameOneGoVersion(t *testing.T) {
	t.Parallel()
	want := majorMinor(readModule(t, ".").Go)
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
		if got := majorMinor(readModule(t, folder).Go); got != want {
			t.Errorf("%s/go.mod is written for Go %s, go.mod for Go %s: one checkout is built with one toolchain", folder, got, want)
		}
	}
}

// majorMinor cuts a version after its second number.
func majorMinor(v string) string {
	parts := strings.SplitN(v, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// client-go v0.N belongs to Kubernetes v1.N. Tests against another version of
// the server would say little about the one that users of this client have.
func TestControlPlaneMatchesTheClient(t *testing.T) {
	t.Parallel()
	client := readModule(t, ".").version(t, "k8s.io/client-go")
	server := readModule(t, "test/controlplane").version(t, "k8s.io/kubernetes")
	if strings.TrimPrefix(majorMinor(client), "v0.") != strings.TrimPrefix(majorMinor(server), "v1.") {
		t.Errorf("client-go %s is tested against Kubernetes %s: move both in one change", client, server)
	}
}
