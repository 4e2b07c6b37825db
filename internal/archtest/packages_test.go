package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// vagueNames are package names that do not describe their contents.
var vagueNames = []string{"base", "common", "core", "helper", "helpers", "lib", "misc", "shared", "tools", "types", "util", "utils"}

func checkPackages(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		if slices.Contains(vagueNames, p.Name) {
			findings = append(findings, fmt.Sprintf("%s: package %s: the name does not describe the contents", p.Dir, p.Name))
		}
		var docs int
		for _, f := range p.Files {
			if f.AST.Doc == nil || f.Test && p.Code() || f.Generated {
				continue
			}
			docs++
			if want := docOpening(p.Name); !strings.HasPrefix(f.AST.Doc.Text(), want) {
				findings = append(findings, fmt.Sprintf("%s: the package comment must begin with %q", f.Path, want))
			}
		}
		switch {
		case docs > 1:
			findings = append(findings, fmt.Sprintf("%s: %d files have a package comment: keep one", p.Dir, docs))
		case docs == 0 && !generated(p):
			findings = append(findings, p.Dir+": no package comment: say in doc.go what the package is, why it exists and what its invariants are")
		}
	}
	return findings
}

func docOpening(name string) string {
	if name == "main" {
		return "Command "
	}
	return "Package " + name + " "
}

func generated(p *sourcetree.Package) bool {
	return !slices.ContainsFunc(p.Files, func(f *sourcetree.File) bool { return !f.Generated })
}

func checkInit(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		for _, f := range code(p) {
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					findings = append(findings, t.Pos(fn)+": no init function: an import must have no side effects")
				}
			}
		}
	}
	return findings
}
