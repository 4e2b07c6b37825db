package doctest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

var (
	goName   = regexp.MustCompile(`^\*?([a-z]\w*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)(?:\(\))?$`)
	testName = regexp.MustCompile(`^((?:Test|Example|Fuzz|Benchmark)(?:[A-Z_]\w*)?)(?:/.*)?$`)
	pathName = regexp.MustCompile(`^(?:\./)?([\w-]+)/[\w./-]*[\w/]$`)
	// historicalPages are about the past, or about plans: their names need not exist.
	historicalPages = regexp.MustCompile(`^(CHANGELOG\.md|docs/decisions/.*|docs/roadmap\.md)$`)
)

func checkNames(b *docSet) []string {
	var findings []string
	exported, tests := exports(b.tree), testFuncs(b.tree)
	for _, p := range b.pages {
		if historicalPages.MatchString(p.path) {
			continue
		}
		for _, s := range p.inline {
			if m := goName.FindStringSubmatch(s.text); m != nil && exported[m[1]] != nil && !exported[m[1]][m[2]] {
				findings = append(findings, fmt.Sprintf("%s:%d: package %s exports no %s", p.path, s.line, m[1], m[2]))
			}
			if m := testName.FindStringSubmatch(s.text); m != nil && !tests[m[1]] {
				findings = append(findings, fmt.Sprintf("%s:%d: there is no test %s", p.path, s.line, m[1]))
			}
			if m := pathName.FindStringSubmatch(s.text); m != nil && isDir(b.fs, m[1]) {
				if _, err := fs.Stat(b.fs, strings.Trim(strings.TrimPrefix(s.text, "./"), "/")); err != nil {
					findings = append(findings, fmt.Sprintf("%s:%d: there is no %s", p.path, s.line, s.text))
				}
			}
		}
	}
	return findings
}

func isDir(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// exports returns the exported names of each package by the package's name: N, and T.M for the
// methods and fields of a type.
func exports(t *sourcetree.Tree) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, p := range t.Packages {
		if p.Name == "main" || strings.Contains("/"+p.Dir, "/internal/") {
			continue
		}
		if all[p.Name] == nil {
			all[p.Name] = map[string]bool{}
		}
		for _, f := range p.Files {
			for _, d := range f.AST.Decls {
				if !f.Test {
					addNames(all[p.Name], d)
				}
			}
		}
	}
	return all
}

// testFuncs returns the names of the functions in test files.
func testFuncs(t *sourcetree.Tree) map[string]bool {
	all := map[string]bool{}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.Test && fn.Recv == nil {
					all[fn.Name.Name] = true
				}
			}
		}
	}
	return all
}

func addNames(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		names[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names[id.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				for _, m := range members(s.Type) {
					names[s.Name.Name+"."+m] = true
				}
			}
		}
	}
}

func members(t ast.Expr) []string {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	var names []string
	for _, f := range list.List {
		for _, id := range f.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

func receiver(t ast.Expr) string {
	name := ""
	ast.Inspect(t, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
