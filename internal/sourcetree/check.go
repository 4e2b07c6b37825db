package sourcetree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
)

// Checker type-checks Go files. It reads their imports not from source but from the export data in
// the build cache.
type Checker struct {
	export map[string]string // import path -> file
	failed map[string]string // import path -> why it has no export data
	imp    types.Importer
}

// NewChecker compiles the packages of the patterns, relative to the directory dir, and their
// imports, and returns a Checker for files that import any of them. A package that does not compile
// is an error only for a file that imports it.
func NewChecker(dir string, fset *token.FileSet, patterns ...string) (*Checker, error) {
	args := append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Export,Error", "--"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && stdout.Len() == 0 {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	c := &Checker{export: map[string]string{}, failed: map[string]string{}}
	for dec := json.NewDecoder(&stdout); ; {
		var p struct {
			ImportPath, Export string
			Error              *struct{ Err string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		if p.Error != nil {
			c.failed[p.ImportPath] = p.Error.Err
		}
		if p.Export != "" {
			c.export[p.ImportPath] = p.Export
		}
	}
	c.imp = importer.ForCompiler(fset, "gc", c.open)
	return c, nil
}

func (c *Checker) open(importPath string) (io.ReadCloser, error) {
	name, ok := c.export[importPath]
	if !ok {
		return nil, fmt.Errorf("no export data for %s: %s", importPath, c.failed[importPath])
	}
	return os.Open(name)
}

// Check type-checks the files as one package. It continues after an error, so that the Info is as
// complete as possible, and returns all errors; a soft one, such as an unused variable, is a
// [types.Error] with Soft set.
func (c *Checker) Check(importPath string, fset *token.FileSet, files []*ast.File) (*types.Info, []error) {
	var errs []error
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: c.imp, Error: func(err error) { errs = append(errs, err) }}
	_, err := conf.Check(importPath, fset, files, info)
	if err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	return info, errs
}
