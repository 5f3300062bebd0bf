package rules_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/leaderbridge/leaderbridge"

// file is one Go file of the main module.
type file struct {
	path string // relative to the repository, with slashes
	ast  *ast.File
}

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f file) imports(path string) bool {
	for _, i := range f.ast.Imports {
		if i.Path.Value == `"`+path+`"` {
			return true
		}
	}
	return false
}

// root returns the folder of the main module.
func root(t *testing.T) string {
	t.Helper()
	return filepath.Dir(goCommand(t, ".", "env", "GOMOD"))
}

// source parses every Go file of the main module. Each test calls it, also for
// the sake of the test cache: go test runs a test again when a file changed
// that the test itself has opened, but knows nothing of what "go list" reads.
func source(t *testing.T) (*token.FileSet, []file) {
	t.Helper()
	top := root(t)
	fset := token.NewFileSet()
	var files []file
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(top, path, d.Name())
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		tree, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		files = append(files, file{filepath.ToSlash(rel), tree})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no Go files below %s", top)
	}
	return fset, files
}

// skip leaves out what the go command leaves out: other modules, and folders
// that are data or hidden.
func skip(top, path, name string) error {
	if path == top {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// goCommand runs the go command in a folder and returns what it prints.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return string(bytes.TrimSpace(out))
}
