package rules_test

import (
	"go/ast"
	"testing"
)

// A test that sleeps to give something time is slow on a fast machine and
// fails on a slow one. In a testing/synctest bubble sleeping is exact, and
// where the passing of real time is the subject itself, the line says so.
func TestNoTestWaitsBySleeping(t *testing.T) {
	t.Parallel()
	fset, files := source(t)
	for _, f := range files {
		if !f.isTest() || f.imports("testing/synctest") {
			continue
		}
		commented := map[int]bool{}
		for _, group := range f.ast.Comments {
			commented[fset.Position(group.Pos()).Line] = true
			commented[fset.Position(group.End()).Line+1] = true
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := fun.X.(*ast.Ident); ok && pkg.Name == "time" && fun.Sel.Name == "Sleep" && !commented[fset.Position(n.Pos()).Line] {
				t.Errorf("%s:%d: time.Sleep in a test: wait for a condition (testenv.Eventually), use testing/synctest, or say beside it why time itself is the subject", f.path, fset.Position(n.Pos()).Line)
			}
			return true
		})
	}
}
