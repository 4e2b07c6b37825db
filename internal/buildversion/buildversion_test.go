package buildversion

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// No two builds have the same version by accident: the stamp, else the module's
// version, else the program itself.
func TestVersionTellsBuildsApart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	here := func() (string, error) { return program, nil }
	write := func(code string) {
		t.Helper()
		if err := os.WriteFile(program, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	module := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}
	unknown := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
	if v := versionOf("v2.0.0", module, here); v != "v2.0.0" {
		t.Errorf("stamped: %s", v)
	}
	if v := versionOf("", module, here); v != "v1.2.3" {
		t.Errorf("of a module: %s", v)
	}
	one := versionOf("", unknown, here)
	write("two")
	if two := versionOf("", nil, here); one == two || !strings.HasPrefix(one, "devel-") || len(one) != len("devel-")+12 {
		t.Errorf("not stamped: %s and %s", one, two)
	}
	if v := versionOf("", nil, func() (string, error) { return "", errors.New("no idea") }); v != "devel" {
		t.Errorf("without a program: %s", v)
	}
}

// The linker does not complain about a variable that is not there.
func TestMakefileStampsTheVersion(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	stamped := regexp.MustCompile(`-X github\.com/txmgr/txmgr/internal/buildversion\.(\w+)=`).FindSubmatch(makefile)
	if stamped == nil {
		t.Fatal("the Makefile stamps no version")
	}
	file, err := parser.ParseFile(token.NewFileSet(), "buildversion.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "string" && v.Values == nil && v.Names[0].Name == string(stamped[1]) {
					return
				}
			}
		}
	}
	t.Errorf("buildversion.go declares no string variable %s without a value", stamped[1])
}
