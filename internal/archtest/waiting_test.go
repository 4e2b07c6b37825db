package archtest

import (
	"go/ast"
	"slices"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// checkWaiting finds tests that sleep or are skipped: such a test may pass without having tested
// anything.
func checkWaiting(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !f.Test && !forTests(p.Dir) {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if selects(f, sel, "time") && sel.Sel.Name == "Sleep" {
					findings = append(findings, t.Pos(n)+": a test does not sleep: wait for the event, or use testing/synctest")
				}
				if id, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, id.Name) &&
					slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
					findings = append(findings, t.Pos(n)+": a test is not skipped: fail, and say what to install")
				}
				return true
			})
		}
	}
	return findings
}
