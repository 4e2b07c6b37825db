package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// mutators are the methods of the machine that a reader must not call.
var mutators = []string{"Apply", "Snapshot", "Hash"}

// checkView checks that the functions passed to FSM.View only read the machine. They run under the
// machine's lock, so one that calls View again, or waits for anything else that does, stops the log
// for ever. Such a function may call only: methods of its parameter that read, methods of what it
// declares and computes itself, and functions of packages that do not receive the receiver of the
// enclosing method.
func checkView(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		if forTests(p.Dir) || strings.HasPrefix(p.Dir, "internal/") {
			continue
		}
		for _, f := range code(p) {
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok || len(call.Args) != 1 || !calls(call, "View", "view") {
						return true
					}
					lit, literal := call.Args[0].(*ast.FuncLit)
					if literal && machineReader(lit) {
						findings = append(findings, readsOnly(t, f, fn, lit)...)
						return false
					}
					if !literal && strings.HasSuffix(written(call.Fun), "fsm.View") {
						findings = append(findings, t.Pos(call)+": View is given a function literal, so that it can be seen that it only reads")
					}
					return true
				})
			}
		}
	}
	return findings
}

// calls reports whether a call's function is a method, or field, of one of the names.
func calls(c *ast.CallExpr, names ...string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains(names, sel.Sel.Name)
}

// machineReader reports whether a function takes one machine, and nothing else.
func machineReader(lit *ast.FuncLit) bool {
	in := lit.Type.Params.List
	if len(in) != 1 || len(in[0].Names) != 1 {
		return false
	}
	star, ok := in[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Machine"
}

func readsOnly(t *sourcetree.Tree, f *sourcetree.File, fn *ast.FuncDecl, lit *ast.FuncLit) []string {
	param, receiver := lit.Type.Params.List[0].Names[0], ""
	if fn.Recv != nil && len(fn.Recv.List[0].Names) == 1 {
		receiver = fn.Recv.List[0].Names[0].Name
	}
	outside := outerVariables(lit)
	var findings []string
	bad := func(n ast.Node, what string) {
		findings = append(findings, fmt.Sprintf("%s: %s inside View: only the machine is read there, since whatever leads back to View stops the log for ever", t.Pos(n), what))
	}
	keep := func(values ...ast.Expr) {
		for _, v := range values {
			if receiver != "" && variable(v) == receiver && !data(v) {
				bad(v, receiver+" is handed on")
			}
		}
	}
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		for _, a := range assignments(n) {
			keep(a.values...)
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		keep(call.Args...)
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			// A function of the package has only its arguments; a variable may refer to anything.
			if outside(fun) {
				bad(call, fun.Name+" is called")
			}
		case *ast.SelectorExpr:
			switch name := first(fun); {
			case name == nil:
			case name.Obj != nil && name.Obj == param.Obj:
				if slices.Contains(mutators, fun.Sel.Name) {
					bad(call, name.Name+"."+fun.Sel.Name+" is called")
				}
			case outside(name):
				bad(call, written(fun)+" is called")
			}
		}
		return true
	})
	return findings
}

// variable is the name at the beginning of an expression such as a.b[c].d; empty when there is none.
func variable(e ast.Expr) string {
	if id := first(e); id != nil {
		return id.Name
	}
	return ""
}

func first(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return first(e.X)
	case *ast.IndexExpr:
		return first(e.X)
	case *ast.StarExpr:
		return first(e.X)
	case *ast.UnaryExpr:
		return first(e.X)
	case *ast.ParenExpr:
		return first(e.X)
	}
	return nil
}

// data reports whether an expression reads a field of a field: n.conf.Limit, but neither n itself nor n.fsm.
func data(e ast.Expr) bool {
	outer, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	_, ok = outer.X.(*ast.SelectorExpr)
	return ok
}

// written is an expression such as a.b.c as it is written.
func written(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		return written(sel.X) + "." + sel.Sel.Name
	}
	return variable(e)
}
