package archtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

var update = flag.Bool("update", false, "write the import table into docs/architecture.md")

const (
	tableBegin = "<!-- import table: written by make generate -->\n"
	tableEnd   = "<!-- end of import table -->\n"
)

// TestPage compares the import table in docs/architecture.md with importRules, or writes it.
func TestPage(t *testing.T) {
	tree, err := sourcetree.Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "docs/architecture.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("docs/architecture.md lacks the markers of the table: a line %q and a line %q", tableBegin, tableEnd)
	}
	want := importTable(tree)
	if *update {
		if err := os.WriteFile(file, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the import table in docs/architecture.md is out of date: run make generate\n%s", want)
	}
}

// importTable formats the rows that apply to an existing package, with the existing targets.
func importTable(t *sourcetree.Tree) string {
	used := map[string]bool{}
	exists := func(pattern string) bool {
		return slices.ContainsFunc(t.Packages, func(p *sourcetree.Package) bool { return matchesPattern(pattern, p.Dir) })
	}
	for _, p := range t.Packages {
		if a, ok := importRuleFor(p.Dir); ok {
			used[a.from] = true
		}
	}
	var s strings.Builder
	s.WriteString("| package | may import | reason |\n|---|---|---|\n")
	for _, a := range importRules {
		if !used[a.from] {
			continue
		}
		to := "nothing of this module"
		targets := slices.DeleteFunc(slices.Clone(a.to), func(pattern string) bool { return !exists(pattern) })
		switch {
		case len(a.to) == 1 && a.to[0] == "...":
			to = "everything"
		case len(targets) > 0:
			to = "`" + strings.Join(targets, "`, `") + "`"
		}
		fmt.Fprintf(&s, "| `%s` | %s | %s |\n", a.from, to, a.why)
	}
	return s.String()
}
