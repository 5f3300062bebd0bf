package rules_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// What fuzzing has found worth a look is kept, and tried in every run of the
// tests. Without a corpus a fuzz target tries its few seeds and nothing else.
func TestFuzzTargetsKeepACorpus(t *testing.T) {
	t.Parallel()
	_, files := source(t)
	targets := 0
	for _, f := range files {
		if !f.isTest() {
			continue
		}
		for _, d := range f.ast.Decls {
			fun, ok := d.(*ast.FuncDecl)
			if !ok || fun.Recv != nil || !strings.HasPrefix(fun.Name.Name, "Fuzz") {
				continue
			}
			targets++
			folder := path.Join(path.Dir(f.path), "testdata", "fuzz", fun.Name.Name)
			if entries, err := os.ReadDir(filepath.Join(root(t), folder)); err != nil || len(entries) == 0 {
				t.Errorf("%s has no corpus in %s: run \"go test -run '^$' -fuzz %s ./%s\" for a while, and keep some of the inputs below $(go env GOCACHE)/fuzz", fun.Name.Name, folder, fun.Name.Name, path.Dir(f.path))
			}
		}
	}
	if targets == 0 {
		t.Error("there are no fuzz targets: the rule has lost its subject")
	}
}
