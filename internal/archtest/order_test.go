package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// orderDirective, in a comment on the line or the line before, gives the reason why the order of a
// map does not matter there.
const orderDirective = "//archtest:order"

// checkOrder finds every iteration over a map in the core: the order of a map differs between
// replicas. It needs types, hence the compiler's export data of everything that the core imports.
func checkOrder(t *sourcetree.Tree) []string {
	imports := map[string]bool{}
	var core []*sourcetree.Package
	for _, p := range t.Packages {
		if !pure(p.Dir) || !p.Code() {
			continue
		}
		core = append(core, p)
		for _, f := range code(p) {
			for path := range f.Imports() {
				imports[path] = true
			}
		}
	}
	if len(core) == 0 {
		return nil
	}
	checker, err := sourcetree.NewChecker(root, t.Fset, slices.Sorted(maps.Keys(imports))...)
	if err != nil {
		return []string{err.Error()}
	}
	var findings []string
	for _, p := range core {
		var files []*ast.File
		for _, f := range code(p) {
			files = append(files, f.AST)
		}
		info, errs := checker.Check(t.ImportPath(p.Dir), t.Fset, files)
		for _, err := range errs {
			if te := (types.Error{}); !errors.As(err, &te) || !te.Soft {
				findings = append(findings, fmt.Sprintf("%s: cannot be judged, because it has no types: %v", p.Dir, err))
			}
		}
		for _, f := range code(p) {
			findings = append(findings, unordered(t, f, info)...)
		}
	}
	return findings
}

func unordered(t *sourcetree.Tree, f *sourcetree.File, info *types.Info) []string {
	var findings []string
	excused, sorted := map[int]bool{}, map[ast.Expr]bool{}
	for _, group := range f.AST.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, orderDirective); ok {
				line := t.Fset.Position(c.Pos()).Line
				excused[line], excused[line+1] = true, true
				if strings.TrimSpace(reason) == "" {
					findings = append(findings, t.Pos(c)+": "+orderDirective+" wants a reason")
				}
			}
		}
	}
	found := func(n ast.Node, what string) {
		if !excused[t.Fset.Position(n.Pos()).Line] {
			findings = append(findings, fmt.Sprintf("%s: %s: replicas see different orders: sort first, or say after %s why it does not matter", t.Pos(n), what, orderDirective))
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if isMap(info.TypeOf(n.X)) {
				found(n, "range over a map")
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			if selects(f, called, "slices") && strings.HasPrefix(called.Sel.Name, "Sorted") && len(n.Args) > 0 {
				sorted[n.Args[0]] = true
			}
			if selects(f, called, "maps") && slices.Contains([]string{"Keys", "Values", "All", "DeleteFunc"}, called.Sel.Name) && !sorted[n] {
				found(n, "maps."+called.Sel.Name)
			}
		}
		return true
	})
	return findings
}

func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := t.(*types.TypeParam); ok {
		return strings.Contains(p.Constraint().Underlying().String(), "map[")
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}
