package rules_test

import (
	"go/ast"
	"strings"
	"testing"
)

// A test that sleeps to give something time is slow on a fast machine and
// fails on a slow one. In a testing/synctest bubble sleeping is exact, in a
// loop it is a pause between two looks, and where the passing of real time is
// the subject itself, a comment on the line says so. In test/faults it always
// is: faults last.
func TestNoTestWaitsBySleeping(t *testing.T) {
	t.Parallel()
	fset, files := source(t)
	for _, f := range files {
		if !f.isTest() || f.imports("testing/synctest") || strings.HasPrefix(f.path, "test/faults/") {
			continue
		}
		explained := map[int]bool{}
		for _, group := range f.ast.Comments {
			explained[fset.Position(group.Pos()).Line] = true
			explained[fset.Position(group.End()).Line+1] = true
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if _, ok := n.(*ast.ForStmt); ok {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if line := fset.Position(n.Pos()).Line; isSleep(call) && !explained[line] {
				t.Errorf("%s:%d: time.Sleep in a test: wait for a condition (testenv.Eventually), use testing/synctest, or say beside it why time itself is the subject", f.path, line)
			}
			return true
		})
	}
}

func isSleep(call *ast.CallExpr) bool {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "Sleep" {
		return false
	}
	pkg, ok := fun.X.(*ast.Ident)
	return ok && pkg.Name == "time"
}
