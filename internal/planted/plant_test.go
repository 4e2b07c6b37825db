package planted

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plant is one bug.
type plant struct {
	name   string // of the bug; unique
	breaks string // the promise that does not hold with it
	file   string // below the root
	old    string // stands there once
	bug    string // stands there instead
	pkg    string // of the test, below the root
	test   string // that has to fail
	says   string // the message with which it fails, or a part of it
	flags  string // of the test; may be empty
	env    string // of the test, in the form NAME=value; may be empty
}

// fewest is how many bugs there have to be.
const fewest = 24

// root is the repository's root, seen from this package.
const root = "../.."

// plants are all bugs.
func plants() []plant {
	return slices.Concat(ofTheLog, ofTheState, ofSnapshots, ofTheNode, ofRecovery, ofAdaptive, ofTheTimeouts, ofParticipants, ofOwnStatements, ofReports, ofTheDoors, ofTheAnnouncer, forTheSimulation)
}

// changed gives the file with the bug in it.
func (p *plant) changed() ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(root, p.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(src), p.old); n != 1 {
		return nil, fmt.Errorf("%s: the text that the bug replaces stands there %d times, and not once: has the code moved on?\n%s", p.file, n, p.old)
	}
	return []byte(strings.Replace(string(src), p.old, p.bug, 1)), nil
}

// TestTable: every bug can be planted, and every test that is to catch one is there.
func TestTable(t *testing.T) {
	all := plants()
	if len(all) < fewest {
		t.Errorf("%d bugs; want %d", len(all), fewest)
	}
	names := map[string]bool{}
	for _, p := range all {
		if p.name == "" || p.breaks == "" || p.old == p.bug || p.says == "" || names[p.name] {
			t.Errorf("%q: no name, no promise, no bug, no message, or twice there", p.name)
		}
		names[p.name] = true
		src, err := p.changed()
		if err == nil {
			_, err = parser.ParseFile(token.NewFileSet(), p.file, src, 0)
		}
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		if !exists(t, p.pkg, p.test) {
			t.Errorf("%s: there is no %s in %s", p.name, p.test, p.pkg)
		}
	}
}

// exists reports whether a package has a test.
func exists(t *testing.T, pkg, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(f string) bool {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(src), "\nfunc "+test+"(t *testing.T)")
	})
}
