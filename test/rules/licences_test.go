package rules_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

// The licences, by their SPDX names, of what may become part of the product.
// All of them allow it in a work under the Apache License.
var allowedLicences = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unlicense"}

// Whoever ships the command or builds on the libraries ships every module that
// is built in. Tests may use what they like: they are not shipped.
func TestLicences(t *testing.T) {
	t.Parallel()
	source(t)
	list := goCommand(t, root(t), "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/...", "./pkg/...")
	modules := map[string]string{}
	for line := range strings.Lines(list) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			modules[path] = dir
		}
	}
	if len(modules) < 20 {
		t.Fatalf("only %d modules are built in: the list is not what it was", len(modules))
	}
	for path, dir := range modules {
		found := licencesOf(t, dir)
		if len(found) == 0 {
			t.Errorf("%s has no licence that is known", path)
		}
		for _, id := range found {
			if !slices.Contains(allowedLicences, id) {
				t.Errorf("%s is under %s: use another library, or add the licence to the list, with a reason", path, id)
			}
		}
	}
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)

// licencesOf returns the licences in a module's topmost folder.
func licencesOf(t *testing.T, dir string) (ids []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range licensecheck.Scan(text).Match {
			if !m.IsURL && !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids
}

// The same for the packages from npm, by their own words. And a lock file pins
// them by hash, and names no server that its writer happened to use.
func TestLicencesOfNodePackages(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"examples/node-follower/package-lock.json", "test/node/package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct{ License, Resolved, Integrity string }
		}
		if err := json.Unmarshal(text, &lock); err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		for name, p := range lock.Packages {
			if name == "" {
				continue // the project itself
			}
			if !slices.Contains(allowedLicences, p.License) {
				t.Errorf("%s: %s is under %q", file, name, p.License)
			}
			if p.Resolved != "" && !strings.HasPrefix(p.Resolved, "https://registry.npmjs.org/") {
				t.Errorf("%s: %s is to be fetched from %s", file, name, p.Resolved)
			}
			if !strings.HasPrefix(p.Integrity, "sha512-") {
				t.Errorf("%s: %s is not pinned by its hash", file, name)
			}
		}
	}
}
