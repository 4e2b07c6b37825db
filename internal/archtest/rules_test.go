package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/ruletest"
	"github.com/txmgr/txmgr/internal/sourcetree"
)

// rule is one rule. check returns one line for each violation, beginning with its position.
type rule struct {
	name  string
	check func(*sourcetree.Tree) []string
}

var rules = []rule{
	{"imports", checkImports},
	{"libraries", checkLibraries},
	{"pure", checkPure},
	{"order", checkOrder},
	{"waiting", checkWaiting},
	{"view", checkView},
	{"packages", checkPackages},
	{"exports", checkExports},
	{"init", checkInit},
	{"size", checkSize},
	{"words", checkWords},
	{"sizes", checkSizes},
	{"vocabulary", checkVocabulary},
	{"commands", checkCommands},
	{"module", checkModule},
}

// root is the repository's root, seen from this package.
const root = "../.."

func TestRules(t *testing.T) {
	tree, err := sourcetree.Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Packages) < 2 {
		t.Fatalf("only %d packages found below %s: the rules would check nothing", len(tree.Packages), root)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, finding := range r.check(tree) {
				t.Error(finding)
			}
		})
	}
	logLarge(t, tree)
}

func TestPlanted(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	byRule := map[string][]string{}
	for _, f := range files {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".txtar"), "-")
		byRule[name] = append(byRule[name], f)
	}
	for _, r := range rules {
		if len(byRule[r.name]) == 0 {
			t.Errorf("rule %s: no testdata/%s*.txtar breaks it, so the rule itself is untested", r.name, r.name)
		}
		for _, f := range byRule[r.name] {
			t.Run(filepath.Base(f), func(t *testing.T) {
				want, repository := ruletest.Read(t, f)
				tree, err := sourcetree.Load(repository)
				if err != nil {
					t.Fatal(err)
				}
				got := r.check(tree)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
				}
			})
		}
		delete(byRule, r.name)
	}
	for name, f := range byRule {
		t.Errorf("%v: no rule is named %q", f, name)
	}
}

// code returns the package's files that are neither tests nor generated.
func code(p *sourcetree.Package) []*sourcetree.File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *sourcetree.File) bool { return f.Test || f.Generated })
}
