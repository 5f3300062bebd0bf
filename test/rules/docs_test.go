package rules_test

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// Every package is documented: a newcomer finds what it is for in doc.go, or,
// for a command, beside its main function. A package of one file needs no
// second one.
func TestEveryPackageIsDocumented(t *testing.T) {
	t.Parallel()
	type packageDoc struct {
		name, where string
		files       int
	}
	packages := map[string]packageDoc{}
	_, files := source(t)
	for _, f := range files {
		if f.isTest() {
			continue
		}
		dir := path.Dir(f.path)
		p := packages[dir]
		p.name = f.ast.Name.Name
		p.files++
		if f.ast.Doc != nil {
			if p.where != "" {
				t.Errorf("package %s is documented twice, in %s and %s: readers see both, one after the other", dir, p.where, f.path)
			}
			p.where = f.path
			begins := []string{"Package " + p.name + " "}
			if p.name == "main" {
				command := path.Base(dir)
				begins = []string{"Command " + command + " ", strings.ToUpper(command[:1]) + command[1:] + " "}
			}
			if !slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(f.ast.Doc.Text(), b) }) {
				t.Errorf("%s: the package comment begins with none of %q, as Go's documentation has it", f.path, begins)
			}
		}
		packages[dir] = p
	}
	for dir, p := range packages {
		switch {
		case p.where == "":
			t.Errorf("package %s has no package comment: say in doc.go what it is for and how to begin", dir)
		case p.name != "main" && p.files > 1 && path.Base(p.where) != "doc.go":
			t.Errorf("package %s is documented in %s: newcomers look in doc.go", dir, p.where)
		}
	}
}
