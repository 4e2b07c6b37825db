package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// Limits of a package without tests, a struct, a type and an interface. What is larger
// has a row in sizeExceptions.
const (
	maxPackageLines     = 3000
	maxStructFields     = 15
	maxExportedMethods  = 25
	maxInterfaceMethods = 8
)

// sizeException allows more than the limit, up to most, for a reason. A row whose subject
// has shrunk below the limit is a finding, so that the table stays true.
type sizeException struct {
	subject string // package folder, or folder.Type
	kind    string // lines, fields, methods or interface
	most    int
	reason  string
}

// checkSizes finds packages, structs, types and interfaces above the limits.
func checkSizes(t *sourcetree.Tree) []string {
	if t.Module != "github.com/txmgr/txmgr" {
		return findSizes(t, nil) // the exceptions are those of this repository
	}
	return findSizes(t, sizeExceptions)
}

func findSizes(t *sourcetree.Tree, exceptions []sizeException) []string {
	var findings []string
	used := map[sizeException]bool{}
	report := func(place, subject, kind string, n, limit int) {
		for _, e := range exceptions {
			if e.subject == subject && e.kind == kind {
				used[e] = true
				limit = e.most
			}
		}
		if n > limit {
			findings = append(findings, fmt.Sprintf("%s: %s has %d %s; at most %d: look for the seam", place, subject, n, kindText[kind], limit))
		}
	}
	for _, p := range t.Packages {
		lines, methods := 0, map[string]int{}
		for _, f := range code(p) {
			lines += f.Lines
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && fn.Recv != nil {
					methods[receiverName(fn.Recv)]++
				}
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				s, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				subject := p.Dir + "." + s.Name.Name
				switch x := s.Type.(type) {
				case *ast.StructType:
					if n := countNames(x.Fields); n > maxStructFields {
						report(t.Pos(s), subject, "fields", n, maxStructFields)
					}
				case *ast.InterfaceType:
					if n := countMethods(f.AST, x); n > maxInterfaceMethods {
						report(t.Pos(s), subject, "interface", n, maxInterfaceMethods)
					}
				}
				return true
			})
		}
		if lines > maxPackageLines {
			report(p.Dir, p.Dir, "lines", lines, maxPackageLines)
		}
		for _, name := range slices.Sorted(maps.Keys(methods)) {
			if methods[name] > maxExportedMethods {
				report(p.Dir, p.Dir+"."+name, "methods", methods[name], maxExportedMethods)
			}
		}
	}
	for _, e := range exceptions {
		if !used[e] {
			findings = append(findings, fmt.Sprintf("%s: %s is within the limit of %s: remove its exception", strings.SplitN(e.subject, ".", 2)[0], e.subject, kindText[e.kind]))
		}
	}
	return findings
}

var kindText = map[string]string{
	"lines":     "lines without tests",
	"fields":    "fields",
	"methods":   "exported methods",
	"interface": "methods",
}

func countNames(l *ast.FieldList) int {
	n := 0
	for _, f := range l.List {
		n += max(len(f.Names), 1)
	}
	return n
}

// countMethods counts those of an embedded interface too, if it is of the same file.
func countMethods(file *ast.File, i *ast.InterfaceType) int {
	n := 0
	for _, f := range i.Methods.List {
		embedded, ok := f.Type.(*ast.Ident)
		if !ok {
			n += max(len(f.Names), 1)
			continue
		}
		ast.Inspect(file, func(x ast.Node) bool {
			if s, ok := x.(*ast.TypeSpec); ok && s.Name.Name == embedded.Name {
				if e, ok := s.Type.(*ast.InterfaceType); ok {
					n += countMethods(file, e)
				}
			}
			return true
		})
	}
	return n
}

// receiverName returns the name of a receiver's type, without pointer and type arguments.
func receiverName(l *ast.FieldList) string {
	x := l.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return ""
		}
	}
}

// Reasons that several exceptions share.
const (
	settings = "each field is a setting, with its own comment"
	fields   = "each field is one of the API, whose messages and JSON are flat"
	model    = "the state of one simulated world, or of one run"
)

// sizeExceptions are what is larger than the limits, how large it may be, and why. The numbers should only go down.
var sizeExceptions = []sizeException{
	{"adaptive.Pool", "fields", 20, "the end of each task changes the queue, the counts and the histograms under one lock, so that the figures of a window agree"},
	{"adaptive.knee", "fields", 25, "what the search knows from window to window; what is used apart (trial, proof, hold, slack) has types"},
	{"cmd/txmgr/internal/demo.database", "interface", 10, "a database of the demo, and a branch in it: two implementations and one user"},
	{"internal/adaptivesim.simulation", "fields", 22, model},
	{"internal/sim", "lines", 5800, model},
	{"internal/sim.Outcome", "fields", 16, model},
	{"internal/sim.World", "fields", 22, model},
	{"node.Config", "fields", 20, settings},
	{"participant/postgres/internal/health.serverInfo", "fields", 25, "one row of one query"},
	{"recovery.Config", "fields", 20, settings},
	{"recovery.Health", "fields", 17, "what an operator sees of a participant; node copies it into the flat message of the API"},
	{"server.Config", "fields", 20, settings},
	{"server/servertest.Fake", "fields", 18, "it answers every call of the API"},
	{"server/servertest.Fake", "methods", 51, "it answers every call of the API"},
	{"txn.Info", "fields", 18, fields},
	{"txn.Manager", "interface", 10, "applications hold one value, and every call is about one transaction"},
	{"txn/admin.Calls", "interface", 25, "the calls of operators, in interfaces by subject"},
	{"txn", "lines", 3400, "an application's handle on a transaction, and all that it and a coordinator say to each other: an announcer in a package of its own would need the types of this one, which starts it"},
	{"txn/admin.ParticipantStatus", "fields", 16, fields},
	{"txn/admin.Status", "fields", 31, fields},
	{"txn/machine", "lines", 5100, "one file for each command, and all change one state, whose invariants would have to be exported"},
	{"txn/machine.Machine", "fields", 32, "the replicated state: its parts are the types of the fields"},
	{"txn/machine.Machine", "methods", 36, "Apply, Snapshot, and the reads: the only way to the replicated state"},
	{"txn/machine.Transaction", "fields", 22, "a transaction as it is stored: one field for each of the snapshot"},
	{"txn/machine.record", "fields", 25, "a transaction in memory: every byte counts"},
	{"txn/txntest.Manager", "fields", 18, "a coordinator in memory: state machine, drivers, sessions and timer under one mutex"},
}
