package sourcetree

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Tree is the Go source of one module.
type Tree struct {
	FS       fs.FS  // the root directory of the module
	Module   string // the path of the module
	Fset     *token.FileSet
	Packages []*Package
	Nested   []string // directories, below the root, of nested modules
}

// Package is one directory with Go files. A package and its external test package are one Package
// here.
type Package struct {
	Dir   string // below the root; "." is the root
	Name  string // of the files that are not tests; else of the tests, without "_test"
	Files []*File
}

// File is one parsed Go file.
type File struct {
	Path      string // below the root
	Test      bool   // its name ends in _test.go
	Generated bool   // it has the comment that the go command prescribes
	Lines     int
	AST       *ast.File
}

var (
	moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)
	skipped    = map[string]bool{"testdata": true, "vendor": true}
)

// Load parses the module in fsys. A file that does not parse is an error with its position.
func Load(fsys fs.FS) (*Tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("read the module's path: %w", err)
	}
	m := moduleLine.FindSubmatch(mod)
	if m == nil {
		return nil, fmt.Errorf("go.mod has no module line")
	}
	t := &Tree{FS: fsys, Module: string(m[1]), Fset: token.NewFileSet()}
	return t, fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == ".":
			return nil
		case d.IsDir() && (skipped[d.Name()] || strings.ContainsAny(d.Name()[:1], "._")):
			return fs.SkipDir
		case d.IsDir():
			if _, err := fs.Stat(fsys, path.Join(p, "go.mod")); err == nil {
				t.Nested = append(t.Nested, p)
				return fs.SkipDir
			}
			return nil
		case path.Ext(p) == ".go":
			return t.add(p)
		}
		return nil
	})
}

func (t *Tree) add(p string) error {
	src, err := fs.ReadFile(t.FS, p)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.Fset, p, src, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	f := &File{
		Path: p, AST: parsed, Test: strings.HasSuffix(p, "_test.go"),
		Generated: ast.IsGenerated(parsed), Lines: strings.Count(string(src), "\n"),
	}
	pkg := t.Package(path.Dir(p))
	if pkg == nil {
		pkg = &Package{Dir: path.Dir(p)}
		t.Packages = append(t.Packages, pkg)
	}
	pkg.Files = append(pkg.Files, f)
	if pkg.Name == "" || !f.Test {
		pkg.Name = parsed.Name.Name
		if f.Test {
			pkg.Name = strings.TrimSuffix(pkg.Name, "_test")
		}
	}
	return nil
}

// Package returns the package in a directory below the root; nil if there is none.
func (t *Tree) Package(dir string) *Package {
	for _, p := range t.Packages {
		if p.Dir == dir {
			return p
		}
	}
	return nil
}

// Pos is the position of n as a text.
func (t *Tree) Pos(n ast.Node) string {
	p := t.Fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// LocalDir returns the directory of an import path of this module; ok is false for every other
// import path.
func (t *Tree) LocalDir(importPath string) (dir string, ok bool) {
	if importPath == t.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.Module+"/")
}

// ImportPath is the reverse of [Tree.LocalDir].
func (t *Tree) ImportPath(dir string) string { return path.Join(t.Module, dir) }

// Code reports whether any file is neither a test nor generated.
func (p *Package) Code() bool {
	for _, f := range p.Files {
		if !f.Test && !f.Generated {
			return true
		}
	}
	return false
}

// Imports returns the import paths of the file and the names under which it uses them: the name
// given in the import, or "" for the package's own name.
func (f *File) Imports() map[string]string {
	m := make(map[string]string, len(f.AST.Imports))
	for _, s := range f.AST.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue // the parser refuses such a file
		}
		m[p] = ""
		if s.Name != nil {
			m[p] = s.Name.Name
		}
	}
	return m
}

// LocalName returns the name under which the file uses an import, "" if it does not import it. For
// an import without a name it is the last element of the path, which is right for the standard
// library.
func (f *File) LocalName(importPath string) string {
	name, ok := f.Imports()[importPath]
	switch {
	case !ok:
		return ""
	case name != "":
		return name
	}
	if base := path.Base(importPath); !strings.HasPrefix(base, "v") || len(base) > 3 {
		return base
	}
	return path.Base(path.Dir(importPath))
}
