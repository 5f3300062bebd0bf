package rules_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testName is a test as documents name it.
var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9]*)`")

// testsByName returns the folders of the packages that have a test of each
// name.
func testsByName(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	_, files := source(t)
	for _, f := range files {
		if !f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				found[fn.Name.Name] = append(found[fn.Name.Name], path.Dir(f.path))
			}
		}
	}
	return found
}

// A document that names a test names one that there is.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := testsByName(t)
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("find the documents: %d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, filepath.Join(root(t), "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			if len(tests[m[1]]) == 0 {
				t.Errorf("%s names %s, and there is no such test", filepath.Base(page), m[1])
			}
		}
	}
}

// Every line of docs/guarantees.md that promises something names a test of it,
// and the package in which it is: one test, or several of one package and then
// the package in brackets.
func TestEveryPromiseHasATest(t *testing.T) {
	t.Parallel()
	tests := testsByName(t)
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	packageName := regexp.MustCompile("^ *\\(`([a-z0-9/]+)`\\)")
	promises := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) != 2 || strings.TrimSpace(cells[0]) == "promise" {
			continue
		}
		promises++
		names := testName.FindAllStringSubmatchIndex(cells[1], -1)
		if len(names) == 0 {
			t.Errorf("no test is named for %q", strings.TrimSpace(cells[0]))
		}
		var waiting []string
		for _, n := range names {
			waiting = append(waiting, cells[1][n[2]:n[3]])
			where := packageName.FindStringSubmatch(cells[1][n[1]:])
			if where == nil {
				continue
			}
			for _, name := range waiting {
				if !slices.Contains(tests[name], where[1]) {
					t.Errorf("%s is in %v, not in %s", name, tests[name], where[1])
				}
			}
			waiting = nil
		}
		if len(waiting) > 0 {
			t.Errorf("the package of %v is not named", waiting)
		}
	}
	if promises < 20 {
		t.Errorf("only %d promises were found", promises)
	}
}
