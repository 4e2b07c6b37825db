package planted

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// TestPlantsCompile: every package compiles with each bug in it. The packages that import it, and
// its tests, are compiled only when the bug is tried.
func TestPlantsCompile(t *testing.T) {
	all := plants()
	c := newCompiler(t, all)
	for i := range all {
		for _, err := range c.compile(t, &all[i]) {
			t.Errorf("%s: does not compile: %v", all[i].name, err)
		}
	}
}

// TestCompilerRefuses: a bug that does not compile is found, by the compiler's error.
func TestCompilerRefuses(t *testing.T) {
	valid := plants()[0]
	c := newCompiler(t, []plant{valid})
	for name, tt := range map[string]struct{ code, says string }{
		"unknown name":     {"func planted() { missing() }", "undefined: missing"},
		"wrong type":       {"func planted() int { return \"\" }", "cannot use"},
		"unused variable":  {"func planted() { v := 1 }", "declared and not used: v"},
		"missing return":   {"func planted() int { }", "missing return"},
		"twice there":      {"func planted() {}\nfunc planted() {}", "planted redeclared"},
		"not parsed":       {"func planted() {", "expected '}'"},
		"no second import": {"import \"no/such/package\"", "imports must appear before"},
	} {
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join(root, valid.file))
			if err != nil {
				t.Fatal(err)
			}
			p := plant{file: valid.file, old: string(src), bug: string(src) + "\n" + tt.code}
			errs := c.compile(t, &p)
			if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), tt.says) }) {
				t.Errorf("errors %v; want %q", errs, tt.says)
			}
		})
	}
	if errs := c.compile(t, &valid); errs != nil {
		t.Errorf("%s: %v", valid.name, errs)
	}
}

// compiler type-checks packages with one changed file. It reads imports from the build cache, and
// parses every unchanged file once.
type compiler struct {
	fset  *token.FileSet
	check *sourcetree.Checker
	files map[string]*ast.File // path below the root -> unchanged file
}

func newCompiler(t *testing.T, of []plant) *compiler {
	t.Helper()
	dirs := map[string]bool{}
	for _, p := range of {
		dirs["./"+path.Dir(p.file)] = true
	}
	fset := token.NewFileSet()
	check, err := sourcetree.NewChecker(root, fset, slices.Sorted(maps.Keys(dirs))...)
	if err != nil {
		t.Fatal(err)
	}
	return &compiler{fset: fset, check: check, files: map[string]*ast.File{}}
}

// compile returns what the compiler says of the bug's package.
func (c *compiler) compile(t *testing.T, p *plant) []error {
	t.Helper()
	src, err := p.changed()
	if err != nil {
		return []error{err}
	}
	changed, err := parser.ParseFile(c.fset, p.file, src, parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	dir := path.Dir(p.file)
	_, errs := c.check.Check(dir, c.fset, append(c.others(t, dir, path.Base(p.file)), changed))
	return errs
}

// others parses the files of a package, except one and the tests.
func (c *compiler) others(t *testing.T, dir, except string) []*ast.File {
	t.Helper()
	pkg, err := build.ImportDir(filepath.Join(root, dir), 0)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		if name == except {
			continue
		}
		file := path.Join(dir, name)
		if c.files[file] == nil {
			c.files[file], err = parser.ParseFile(c.fset, filepath.Join(root, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
		}
		files = append(files, c.files[file])
	}
	return files
}
