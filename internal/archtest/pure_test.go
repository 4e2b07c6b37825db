package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// pure reports whether a package belongs to the core, which takes time and randomness as inputs.
func pure(dir string) bool {
	return slices.Contains(purePackages, dir) || matchesPattern("timeout/...", dir) && !forTests(dir) && !slices.Contains(impurePackages, dir)
}

// purePackages are those outside timeout.
var purePackages = []string{"adaptive/costa", "txn", "txn/internal/workdeadline", "txn/machine", "txn/machine/internal/slab", "recovery/breaker", "recovery/plan", "recovery/queue"}

// impurePackages are the timeout packages that have a goroutine and a clock; the others are only
// data structures.
var impurePackages = []string{"timeout/wheel/runner", "timeout/purgatory"}

// pureFiles are packages of which only the files named here are impure: a pool has goroutines and a
// clock, and the code that decides its size has not.
var pureFiles = map[string][]string{
	"adaptive": {"control.go", "feed.go", "meter.go", "pool.go", "queue.go", "stats.go", "submit.go", "worker.go"},
}

// isCore reports whether a file takes time and randomness as inputs.
func isCore(p *sourcetree.Package, f *sourcetree.File) bool {
	runs, ok := pureFiles[p.Dir]
	return pure(p.Dir) || ok && !slices.Contains(runs, path.Base(f.Path))
}

// impureImports is what the core must not import: I/O and randomness.
var impureImports = []string{
	"crypto/rand", "math/rand", "net", "os", "syscall", "io/ioutil", "log", "log/slog", "plugin", "unsafe",
	"golang.org/x/sys", "golang.org/x/net", "golang.org/x/sync",
}

// clocks are the functions that read a clock or wait for one, by package.
var clocks = map[string][]string{
	"time":    {"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
}

// clocksAllowed are the exceptions, each with its reason.
var clocksAllowed = map[string]string{
	"txn context.AfterFunc":   "the begin is sent when the wait for a second branch has ended; nothing is decided by it",
	"txn time.Until":          "a caller's deadline is a time, and the coordinator takes durations; nothing is decided by it",
	"txn context.WithTimeout": "the application's own part of phase two, and the wait for a second branch before the begin, have an end; nothing is decided by it",

	"txn/internal/workdeadline context.AfterFunc":   "the work of a transaction ends with its time, which Tx.Extend moves; nothing is decided by it",
	"txn/internal/workdeadline context.WithTimeout": "the same",
}

// goroutinesAllowed are the files of the core that may start goroutines, each with the reason.
var goroutinesAllowed = map[string]string{
	"txn/commit.go": "with Options.ReturnOnDecision the application's own part of phase two goes on when the commit has returned; nothing is decided by it",
}

func checkPure(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		for _, f := range code(p) {
			if isCore(p, f) {
				findings = append(findings, impure(t, p.Dir, f)...)
			}
		}
	}
	return findings
}

func impure(t *sourcetree.Tree, dir string, f *sourcetree.File) []string {
	var findings []string
	found := func(n ast.Node, format string, args ...any) {
		findings = append(findings, t.Pos(n)+": "+fmt.Sprintf(format, args...))
	}
	for _, spec := range f.AST.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if slices.ContainsFunc(impureImports, func(o string) bool { return under(o, path) }) {
			found(spec, "the core must not import %s: time, chance and I/O are inputs", path)
		}
		if spec.Name != nil && spec.Name.Name == "." {
			found(spec, "a dot import hides from this rule what is used")
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if goroutinesAllowed[f.Path] == "" {
				found(n, "the core starts no goroutine")
			}
		case *ast.SelectorExpr:
			for path, names := range clocks {
				call := dir + " " + path + "." + n.Sel.Name
				if selects(f, n, path) && slices.Contains(names, n.Sel.Name) && clocksAllowed[call] == "" {
					found(n, "%s.%s: the core has no clock: take the time, or the tick, as an argument", path, n.Sel.Name)
				}
			}
		}
		return true
	})
	return findings
}

// selects reports whether n selects from the imported package, not from a
// variable of the same name.
func selects(f *sourcetree.File, n *ast.SelectorExpr, importPath string) bool {
	id, ok := n.X.(*ast.Ident)
	return ok && id.Obj == nil && id.Name == f.LocalName(importPath)
}
