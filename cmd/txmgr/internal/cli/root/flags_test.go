package root

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryFlagIsRead: a field that a flag is bound to and that is never read is a flag without an
// effect. Compilers and linters count its address as a use.
func TestEveryFlagIsRead(t *testing.T) {
	names, err := filepath.Glob("../*/*.go") // the subjects
	shared, sharedErr := filepath.Glob("../*.go")
	if err := errors.Join(err, sharedErr); err != nil {
		t.Fatal(err)
	}
	bound, read := map[string]token.Position{}, map[string]bool{}
	fset := token.NewFileSet()
	for _, name := range append(names, shared...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s := boundTo(n); s != nil {
					bound[s.Sel.Name] = fset.Position(s.Pos())
					for _, arg := range n.Args[1:] {
						ast.Inspect(arg, func(n ast.Node) bool { return note(read, n) })
					}
					return false
				}
			case *ast.SelectorExpr:
				return note(read, n)
			}
			return true
		})
	}
	if len(bound) < 50 {
		t.Fatalf("only %d flags found: the test looks for the wrong thing", len(bound))
	}
	for field, where := range bound {
		if !read[field] && !ast.IsExported(field) { // an exported one belongs to a struct that is passed on as a whole
			t.Errorf("%v: nothing reads %s", where, field)
		}
	}
}

func note(read map[string]bool, n ast.Node) bool {
	if s, ok := n.(*ast.SelectorExpr); ok {
		read[s.Sel.Name] = true
	}
	return true
}

// boundTo returns x.field of a call f.KindVar(&x.field, …) or f.KindVarP(&x.field, …); nil for any
// other call.
func boundTo(call *ast.CallExpr) *ast.SelectorExpr {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 3 || !strings.HasSuffix(strings.TrimSuffix(method.Sel.Name, "P"), "Var") {
		return nil
	}
	address, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok || address.Op != token.AND {
		return nil
	}
	field, _ := address.X.(*ast.SelectorExpr)
	return field
}
