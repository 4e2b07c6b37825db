package archtest

import (
	"fmt"
	"go/ast"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// smallInterface is the number of methods up to which the comment on an interface may document all
// of them.
const smallInterface = 4

// checkExports finds exported names without a comment: functions, types, the
// methods of exported types and of large interfaces, variables and constants. One
// comment on a group of variables or constants is enough for the group.
func checkExports(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		for _, f := range code(p) {
			for _, d := range f.AST.Decls {
				for _, id := range undocumented(d) {
					findings = append(findings, fmt.Sprintf("%s: exported %s has no comment: say what it promises", t.Pos(id), id.Name))
				}
			}
		}
	}
	return findings
}

func undocumented(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || receiverExported(d.Recv)) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, s := range d.Specs {
			names = append(names, undocumentedSpec(d, s)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(d *ast.GenDecl, s ast.Spec) []*ast.Ident {
	var names []*ast.Ident
	switch s := s.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		if s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, s.Name)
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok && len(i.Methods.List) > smallInterface {
			for _, m := range i.Methods.List {
				if m.Doc == nil && m.Comment == nil && len(m.Names) == 1 && m.Names[0].IsExported() {
					names = append(names, m.Names[0])
				}
			}
		}
	case *ast.ValueSpec:
		if d.Doc != nil || s.Doc != nil || s.Comment != nil {
			return nil
		}
		for _, id := range s.Names {
			if id.IsExported() {
				names = append(names, id)
			}
		}
	}
	return names
}

func receiverExported(recv *ast.FieldList) bool { return ast.IsExported(receiverName(recv)) }
