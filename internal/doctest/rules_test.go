package doctest

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/ruletest"
	"github.com/txmgr/txmgr/internal/sourcetree"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md from the program, and the list of decisions")

// root is the repository's root, seen from this package.
const root = "../.."

// docSet is everything that the rules check.
type docSet struct {
	fs    fs.FS
	pages []*page
	tree  *sourcetree.Tree
	cli   program
}

// rule is one rule. check returns one line for each violation, beginning with its position.
type rule struct {
	name        string
	check       func(*docSet) []string
	runsProgram bool // it runs the program
}

var rules = []rule{
	{"links", checkLinks, false},
	{"names", checkNames, false},
	{"go", checkGo, false},
	{"examples", checkExamples, false},
	{"commands", checkCommands, true},
}

func open(t *testing.T, fsys fs.FS, cli program) *docSet {
	t.Helper()
	all, err := pages(fsys)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := sourcetree.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return &docSet{fs: fsys, pages: all, tree: tree, cli: cli}
}

// repositoryDocs opens the documentation of the repository itself.
func repositoryDocs(t *testing.T) *docSet {
	t.Helper()
	b := open(t, os.DirFS(root), &binary{path: binaryPath})
	if len(b.pages) < 5 {
		t.Fatalf("only %d pages found below %s: the rules would hold for nothing", len(b.pages), root)
	}
	return b
}

func TestPages(t *testing.T) {
	b := repositoryDocs(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if r.runsProgram {
				txmgr(t)
			}
			for _, finding := range r.check(b) {
				t.Error(finding)
			}
		})
	}
}

func TestPlanted(t *testing.T) {
	tried := map[string]bool{}
	for _, f := range archives(t) {
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		t.Run(name, func(t *testing.T) {
			want, fsys := ruletest.Read(t, f)
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
			if i < 0 {
				t.Fatalf("there is no rule %q", name)
			}
			got := rules[i].check(open(t, fsys, fakeProgram))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
		tried[name] = true
	}
	for _, r := range rules {
		if !tried[r.name] {
			t.Errorf("rule %s: no archive in testdata breaks it, so nobody knows whether it can fail", r.name)
		}
	}
}

func archives(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return files
}
