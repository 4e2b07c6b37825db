package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const library = "github.com/sasha-s/go-deadlock"

// pkg is one package of the module under test.
type pkg struct {
	Dir, Name string
	GoFiles   []string
}

func list(root string) (all []pkg, err error) {
	cmd := exec.Command("go", "list", "-json=Dir,Name,GoFiles", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// replaceLocks writes the package's files that have mutexes to dir, with those of the library, and
// adds them to the overlay. It returns the number of replacements.
func (p pkg) replaceLocks(dir string, overlay map[string]string) (replaced int, err error) {
	for _, file := range p.GoFiles {
		name := filepath.Join(p.Dir, file)
		src, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		out, n, err := replaceIn(name, src)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		replaced += n
		if overlay[name], err = write(dir, len(overlay), out); err != nil {
			return 0, err
		}
	}
	if replaced == 0 {
		return 0, nil
	}
	// No report after a long wait: on a busy machine every lock may wait long.
	settings := fmt.Sprintf("package %s\n\nimport productlocks %q\n\nfunc init() { productlocks.Opts.DeadlockTimeout = 0 }\n", p.Name, library)
	overlay[filepath.Join(p.Dir, "zz_locks.go")], err = write(dir, len(overlay), []byte(settings))
	return replaced, err
}

func write(dir string, number int, text []byte) (string, error) {
	name := filepath.Join(dir, fmt.Sprintf("%d.go", number))
	return name, os.WriteFile(name, text, 0o600)
}

// replaceIn replaces the mutexes of one file. Lines keep their numbers.
func replaceIn(name string, src []byte) (out []byte, replaced int, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	if !slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"sync"` && s.Name == nil }) {
		return nil, 0, nil
	}
	var at []int // the positions of "sync"
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == "sync" && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex") {
			at = append(at, fset.Position(id.Pos()).Offset)
		}
		return true
	})
	if len(at) == 0 {
		return nil, 0, nil
	}
	slices.Sort(at)
	head := fset.Position(f.Name.End()).Offset
	var b strings.Builder
	b.Write(src[:head])
	fmt.Fprintf(&b, "; import productlocks %q", library)
	for _, i := range at {
		b.Write(src[head:i])
		b.WriteString("productlocks")
		head = i + len("sync")
	}
	b.Write(src[head:])
	b.WriteString("\nvar _ sync.Locker\n")
	return []byte(b.String()), len(at), nil
}

func fields(b []byte) []string { return strings.Fields(string(b)) }
