package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutation replaces the bytes [from, to) of a file.
type mutation struct {
	file     string
	line     int
	from, to int
	with     string
	kind     string
}

func (m mutation) apply(src []byte) []byte {
	return slices.Concat(src[:m.from], []byte(m.with), src[m.to:])
}

// diff shows the line before and after.
func (m mutation) diff(src []byte) string {
	begin := bytes.LastIndexByte(src[:m.from], '\n') + 1
	end := len(src)
	if n := bytes.IndexByte(src[m.to:], '\n'); n >= 0 {
		end = m.to + n
	}
	lines := func(sign, text string) string {
		return sign + strings.ReplaceAll(strings.TrimRight(text, " \t"), "\n", "\n"+sign) + "\n"
	}
	return lines("- ", string(src[begin:end])) + lines("+ ", string(src[begin:m.from])+m.with+string(src[m.to:end]))
}

// operators are the replacements of each operator.
var operators = map[token.Token][]token.Token{
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.QUO},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN}, token.OR_ASSIGN: {token.AND_ASSIGN}, token.AND_ASSIGN: {token.OR_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

// finder collects the mutations of one file.
type finder struct {
	name  string
	file  *token.File
	src   []byte
	found []mutation
}

// mutations lists the mutations of one file, in the order of the text; none of a generated file.
func mutations(name string, src []byte) ([]mutation, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, src, parser.ParseComments)
	if err != nil || ast.IsGenerated(tree) {
		return nil, err
	}
	f := &finder{name: name, file: set.File(tree.FileStart), src: src}
	ast.Inspect(tree, f.node)
	slices.SortStableFunc(f.found, func(a, b mutation) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	return f.found, nil
}

func (f *finder) add(kind string, pos, end token.Pos, with string) {
	f.found = append(f.found, mutation{f.name, f.file.Line(pos), f.file.Offset(pos), f.file.Offset(end), with, kind})
}

func (f *finder) operator(pos token.Pos, op token.Token) {
	for _, other := range operators[op] {
		f.add("operator", pos, pos+token.Pos(len(op.String())), other.String())
	}
}

// remove blanks a statement, and keeps the line numbers.
func (f *finder) remove(s ast.Node) {
	text := f.src[f.file.Offset(s.Pos()):f.file.Offset(s.End())]
	f.add("statement removed", s.Pos(), s.End(), "{}"+strings.Repeat("\n", bytes.Count(text, []byte("\n"))))
}

func (f *finder) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.StructType:
		return false
	case *ast.CallExpr:
		return !quiet(n)
	case *ast.BinaryExpr:
		f.operator(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.AssignStmt:
		f.operator(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			f.remove(n)
		}
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); !ok || !quiet(call) {
			f.remove(n)
		}
	case *ast.DeferStmt:
		f.remove(n)
	case *ast.IfStmt:
		f.add("condition negated", n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
	case *ast.ForStmt:
		if n.Cond != nil {
			f.add("condition negated", n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.add("negation dropped", n.Pos(), n.Pos()+1, "")
		}
	case *ast.BranchStmt:
		switch n.Tok {
		case token.BREAK:
			f.add("operator", n.Pos(), n.Pos()+token.Pos(len("break")), "continue")
		case token.CONTINUE:
			f.add("operator", n.Pos(), n.Pos()+token.Pos(len("continue")), "break")
		}
	case *ast.Ident:
		if with, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			f.add("constant", n.Pos(), n.End(), with)
		}
	case *ast.BasicLit:
		f.constant(n)
	}
	return true
}

// constant changes an integer by one.
func (f *finder) constant(n *ast.BasicLit) {
	i, err := strconv.ParseInt(n.Value, 0, 64)
	if n.Kind != token.INT || err != nil {
		return
	}
	f.add("constant", n.Pos(), n.End(), fmt.Sprint(i+1))
	if i > 0 {
		f.add("constant", n.Pos(), n.End(), fmt.Sprint(i-1))
	}
}

func (f *finder) text(n ast.Node) string {
	return string(f.src[f.file.Offset(n.Pos()):f.file.Offset(n.End())])
}

// quiet reports whether a call only logs or panics.
func quiet(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name == "panic"
	case *ast.SelectorExpr:
		logs := []string{"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "LogAttrs"}
		return slices.Contains(logs, fun.Sel.Name) && len(call.Args) > 0
	}
	return false
}
