package archtest

import (
	"go/ast"
	"go/token"
	"slices"
)

// outerVariables reports the variables of the functions around a literal: what they refer to is not
// known. A variable of the literal that is assigned a value of such a variable, as in f :=
// n.cluster, counts as one of them.
func outerVariables(lit *ast.FuncLit) func(*ast.Ident) bool {
	tainted := map[token.Pos]bool{} // by the position of the declaration
	outside := func(id *ast.Ident) bool {
		if !captured(id) {
			return false
		}
		declared := lit.Pos() <= id.Obj.Pos() && id.Obj.Pos() < lit.End()
		return !declared || tainted[id.Obj.Pos()]
	}
	for more := true; more; { // a loop may assign what is declared after it
		more = false
		ast.Inspect(lit.Body, func(n ast.Node) bool {
			if r, ok := n.(*ast.RangeStmt); ok {
				if id, ok := r.X.(*ast.Ident); ok && id.Obj != nil && !tainted[id.Obj.Pos()] {
					return true // the elements of the enclosing function's arguments are data
				}
			}
			for _, a := range assignments(n) {
				if !slices.ContainsFunc(a.values, func(v ast.Expr) bool { return mentions(v, outside) }) {
					continue
				}
				for _, to := range a.to {
					if id := first(to); id != nil && id.Obj != nil && !outside(id) {
						tainted[id.Obj.Pos()], more = true, true
					}
				}
			}
			return true
		})
	}
	return outside
}

// assignment pairs variables with the values assigned to them, one by one where there are as many.
type assignment struct{ to, values []ast.Expr }

// assignments are those of a statement or a declaration itself.
func assignments(n ast.Node) []assignment {
	var to, values []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		to, values = n.Lhs, n.Rhs
	case *ast.ValueSpec:
		for _, id := range n.Names {
			to = append(to, id)
		}
		values = n.Values
	case *ast.RangeStmt:
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if e != nil {
				to = append(to, e)
			}
		}
		values = []ast.Expr{n.X}
	}
	if len(to) != len(values) {
		return []assignment{{to, values}}
	}
	all := make([]assignment, len(to))
	for i := range to {
		all[i] = assignment{to[i : i+1], values[i : i+1]}
	}
	return all
}

// mentions reports whether a value is computed from such a variable. Calls and the bodies of
// functions are checked separately, and an index only selects.
func mentions(value ast.Expr, such func(*ast.Ident) bool) (found bool) {
	ast.Inspect(value, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr, *ast.FuncLit:
			return false
		case *ast.IndexExpr:
			found = found || mentions(n.X, such)
			return false
		case *ast.Ident:
			found = found || such(n)
		}
		return true
	})
	return found
}

// captured reports whether an expression begins with a variable of an enclosing function. Any other
// name there is a package or a constant.
func captured(e ast.Expr) bool {
	id := first(e)
	return id != nil && id.Obj != nil && id.Obj.Kind == ast.Var
}
