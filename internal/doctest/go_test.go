package doctest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// implicitImports are the packages outside this module that a fragment may use without importing
// them, by name.
var implicitImports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log",
	"os": "os", "sql": "database/sql", "testing": "testing", "time": "time",
	"pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool",
}

var importDecl = regexp.MustCompile(`(?s)^\s*import (\(.*?\n\)|[^(\n][^\n]*)\n`)

// checkGo compiles the Go blocks.
func checkGo(b *docSet) []string {
	var findings []string
	fset := token.NewFileSet()
	var files []*ast.File
	imports := map[string]bool{}
	for _, p := range b.pages {
		for _, bl := range p.blocks {
			if bl.lang != "go" {
				continue
			}
			f, err := parseBlock(fset, b.tree, p.path, bl)
			if err != nil {
				findings = append(findings, err.Error())
				continue
			}
			files = append(files, f)
			for _, s := range f.Imports {
				imports[strings.Trim(s.Path.Value, `"`)] = true
			}
		}
	}
	if len(files) == 0 {
		return findings
	}
	checker, err := sourcetree.NewChecker(root, fset, slices.Sorted(maps.Keys(imports))...)
	if err != nil {
		return append(findings, err.Error())
	}
	for _, f := range files {
		_, errs := checker.Check("doc", fset, []*ast.File{f})
		for _, err := range errs {
			if te := (types.Error{}); !errors.As(err, &te) || !te.Soft {
				findings = append(findings, err.Error())
			}
		}
	}
	return findings
}

// parseBlock makes a file of a block: the block itself, or a file with the block as declarations,
// or as the statements of a function.
func parseBlock(fset *token.FileSet, tree *sourcetree.Tree, page string, b block) (*ast.File, error) {
	place := func(line int) string { return fmt.Sprintf("\n//line %s:%d\n", page, line) }
	if strings.HasPrefix(b.text, "package ") {
		return parser.ParseFile(fset, "", place(b.line)+b.text, 0)
	}
	head := importDecl.FindString(b.text)
	body := place(b.line+strings.Count(head, "\n")) + b.text[len(head):]
	head = place(b.line) + head
	params := "ctx context.Context"
	if b.attrs["with"] != "" {
		params += ", " + b.attrs["with"]
	}
	forms := []string{
		head + "%s" + body,
		head + "%s\nfunc _(" + params + ") error {" + body + "return nil\n}\n",
	}
	var err error
	for _, form := range forms {
		var f *ast.File
		if f, err = parser.ParseFile(fset, "", "package doc\n"+strings.Replace(form, "%s", "", 1), 0); err != nil {
			continue
		}
		missing := ""
		for _, path := range unimported(tree, f) {
			missing += "\nimport " + strconv.Quote(path)
		}
		return parser.ParseFile(fset, "", "package doc\n"+strings.Replace(form, "%s", missing, 1), 0)
	}
	return nil, err
}

// unimported returns the import paths that a fragment needs and does not name.
func unimported(tree *sourcetree.Tree, f *ast.File) []string {
	own := map[string]string{}
	for _, p := range tree.Packages {
		if !strings.Contains("/"+p.Dir, "/internal/") && p.Name != "main" {
			own[p.Name] = tree.ImportPath(p.Dir)
		}
	}
	imported := map[string]bool{}
	for _, s := range f.Imports {
		path := strings.Trim(s.Path.Value, `"`)
		imported[path[strings.LastIndex(path, "/")+1:]] = true
		imported[path] = true
	}
	need := map[string]bool{}
	for _, id := range f.Unresolved {
		path := own[id.Name]
		if path == "" {
			path = implicitImports[id.Name]
		}
		if path != "" && !imported[path] && !imported[id.Name] {
			need[path] = true
		}
	}
	return slices.Sorted(maps.Keys(need))
}
