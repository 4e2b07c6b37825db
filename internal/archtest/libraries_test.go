package archtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// library lists the packages of this module in which a dependency may appear.
type library struct {
	path  string // import path, or what it begins with
	where []string
	why   string
}

var libraries = []library{
	{"github.com/hashicorp/raft", []string{"raftfsm/...", "node/...", "internal/simenv", "internal/sim"}, "the log is known to those who drive it"},
	{"go.etcd.io/bbolt", []string{"raftfsm/...", "node", "participant/ledger"}, "a store belongs to one package"},
	{"github.com/spf13/", []string{"cmd/..."}, "the command line is a shell round the product"},
	{"github.com/jackc/pgx/", []string{"participant/postgres/...", "internal/testdb", "internal/adaptivebench", "cmd/txmgr/internal/...", "examples/..."}, "a driver belongs to its participant, and to whoever plays the application"},
	{"github.com/go-sql-driver/", []string{"participant/mariadb/...", "txn/retry", "internal/testdb", "cmd/txmgr/internal/..."}, "a driver belongs to its participant, to programs that act as an application, and to the package that judges its errors"},
	{"connectrpc.com/", []string{"api/...", "server/...", "client/..."}, "the wire has two ends"},
	{"github.com/prometheus/", []string{"server/..."}, "metrics are an output of the server"},
	{"go.yaml.in/yaml/v3", []string{"cmd/..."}, "text formats for people are printed by the command line"},
	{"github.com/knadh/koanf/", []string{"cmd/..."}, "configuration is read at the edge"},
}

// testOnly lists the libraries that may appear only in tests and in packages whose name ends in
// "test".
var testOnly = []string{
	"testing",
	"github.com/google/go-cmp/",
	"github.com/rogpeppe/go-internal/",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
	"net/http/httptest",
}

func checkLibraries(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		for _, f := range code(p) {
			for _, spec := range f.AST.Imports {
				path := strings.Trim(spec.Path.Value, `"`)
				for _, l := range libraries {
					if under(l.path, path) && !slices.ContainsFunc(l.where, func(w string) bool { return matchesPattern(w, p.Dir) }) {
						findings = append(findings, fmt.Sprintf("%s: %s must not import %s: %s", t.Pos(spec), p.Dir, path, l.why))
					}
				}
				if !forTests(p.Dir) && slices.ContainsFunc(testOnly, func(lib string) bool { return under(lib, path) }) {
					findings = append(findings, fmt.Sprintf("%s: %s would link %s, which is for tests, into the product", t.Pos(spec), p.Dir, path))
				}
			}
		}
	}
	return findings
}

// forTests reports whether a package exists only for tests.
func forTests(dir string) bool {
	return strings.HasSuffix(dir, "test") || dir == "internal/testdb" || dir == "internal/sim"
}

// under reports whether an import path is a library or one of its packages.
func under(library, path string) bool {
	return path == library || strings.HasPrefix(path, strings.TrimSuffix(library, "/")+"/")
}
