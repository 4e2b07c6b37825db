package doctest

import (
	"fmt"
	"go/ast"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReferenceCLI compares docs/reference/cli.md with the help of the program, or writes it.
func TestReferenceCLI(t *testing.T) {
	want := cliPage(&binary{path: txmgr(t)})
	file := filepath.Join(root, "docs/reference/cli.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/reference/cli.md is not what the program says of itself: %s\nrun make generate", firstDifference(string(got), want))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d says %q, the program %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("it has %d lines, the program says %d", len(g), len(w))
}

func cliPage(cli program) string {
	var s strings.Builder
	s.WriteString("# Command line\n\nThis page is written by the program: it is the help of every command. How the commands are used together is in\n" +
		"[start](../start.md); what they exit with in [exit codes](exit-codes.md).\n")
	var walk func(path []string)
	walk = func(path []string) {
		topic := path
		if len(path) > 1 && path[0] == "help" {
			topic = path[1:]
		}
		fmt.Fprintf(&s, "\n## %s\n\n```text\n%s\n```\n", strings.Join(append([]string{"txmgr"}, path...), " "), strings.TrimRight(cli.help(topic), "\n "))
		if len(path) > 0 && path[0] == "completion" {
			return // standard commands: their own help is sufficient
		}
		for _, name := range slices.Sorted(slices.Values(cli.commands(path))) {
			if len(path) == 0 || path[0] != "help" || !slices.Contains(cli.commands(nil), name) {
				walk(append(slices.Clone(path), name)) // below help are only topics, not commands
			}
		}
	}
	walk(nil)
	return s.String()
}

// TestReferenceNames compares the tables of docs/reference with the source: both contain the same
// names.
func TestReferenceNames(t *testing.T) {
	b := open(t, os.DirFS(root), nil)
	codes, sentinels := txnNames(b)
	for _, c := range []struct {
		page    string
		pattern string // of the names in inline code on the page
		names   []string
	}{
		{"docs/reference/exit-codes.md", `^[A-Z_]{2,}$`, append(codes, "INTERRUPTED")},
		{"docs/reference/errors.md", `^Err[A-Z]\w*$`, sentinels},
		{"docs/reference/errors.md", `^[A-Z_]{2,}$`, codes},
		{"docs/reference/api.md", `^[A-Z]\w+Service/\w+$`, calls(t, b.fs)},
	} {
		if len(c.names) == 0 {
			t.Errorf("%s: the source has no names for it: the test looks at the wrong place", c.page)
		}
		i := slices.IndexFunc(b.pages, func(p *page) bool { return p.path == c.page })
		if i < 0 {
			t.Errorf("%s does not exist", c.page)
			continue
		}
		for _, problem := range compareNames(b.pages[i], regexp.MustCompile(c.pattern), c.names) {
			t.Error(problem)
		}
	}
}

func compareNames(p *page, pattern *regexp.Regexp, names []string) []string {
	var problems []string
	said := map[string]bool{}
	for _, s := range p.inline {
		if pattern.MatchString(s.text) {
			said[s.text] = true
			if !slices.Contains(names, s.text) {
				problems = append(problems, fmt.Sprintf("%s:%d: there is no %s", p.path, s.line, s.text))
			}
		}
	}
	for _, n := range names {
		if !said[n] {
			problems = append(problems, fmt.Sprintf("%s: does not say what %s is", p.path, n))
		}
	}
	return problems
}

// txnNames returns the codes and the sentinels of package txn.
func txnNames(b *docSet) (codes, sentinels []string) {
	p := b.tree.Package("txn")
	if p == nil {
		return nil, nil
	}
	for _, f := range p.Files {
		for _, d := range f.AST.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || f.Test {
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if strings.HasPrefix(v.Names[0].Name, "Err") {
					sentinels = append(sentinels, v.Names[0].Name)
				}
				if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Code" && len(v.Values) == 1 {
					if lit, ok := v.Values[0].(*ast.BasicLit); ok {
						if text, err := strconv.Unquote(lit.Value); err == nil {
							codes = append(codes, text)
						}
					}
				}
			}
		}
	}
	return codes, sentinels
}

var (
	service = regexp.MustCompile(`(?m)^service (\w+) \{`)
	rpc     = regexp.MustCompile(`(?m)^\s+rpc (\w+)\s*\(`)
)

// calls returns Service/Call for every call of the API.
func calls(t *testing.T, fsys fs.FS) []string {
	t.Helper()
	files, err := fs.Glob(fsys, "api/txmgr/v1/*.proto")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, f := range files {
		data, err := fs.ReadFile(fsys, f)
		if err != nil {
			t.Fatal(err)
		}
		places := service.FindAllSubmatchIndex(data, -1)
		for i, m := range places {
			end := len(data)
			if i+1 < len(places) {
				end = places[i+1][0]
			}
			for _, r := range rpc.FindAllSubmatch(data[m[0]:end], -1) {
				all[string(data[m[2]:m[3]])+"/"+string(r[1])] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

var exitRow = regexp.MustCompile("(?m)^(?:  *|\\| )(\\d+)(?:  | \\| `)([A-Z_]+)")

// TestReferenceExitCodes compares the numbers on the page with the program's.
func TestReferenceExitCodes(t *testing.T) {
	rows := func(text string) (all []string) {
		for _, m := range exitRow.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1]+" "+m[2])
		}
		return all
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/exit-codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := rows((&binary{path: txmgr(t)}).help([]string{"exit-codes"}))
	if len(want) < 5 {
		t.Fatalf("the program names %d exit codes: the test looks at the wrong place", len(want))
	}
	if diff := cmp.Diff(want, rows(string(page))); diff != "" {
		t.Errorf("docs/reference/exit-codes.md (-program +page):\n%s", diff)
	}
}

var (
	metricHelp = regexp.MustCompile(`(?m)^# HELP (txmgr_\w+)`)
	metricName = regexp.MustCompile(`^txmgr_\w+$`)
)

// TestReferenceMetrics compares the page about operations with the metrics of a server with a
// participant.
func TestReferenceMetrics(t *testing.T) {
	addr := startServer(t.Context(), t, os.Environ(), "server")
	add := exec.Command(txmgr(t), "--address", addr, "participant", "add", "stock", "--kind", "ledger", "--path", filepath.Join(t.TempDir(), "stock.db"))
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("add a participant: %v\n%s", err, out)
	}
	resp, err := http.Get(addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range metricHelp.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		t.Fatalf("the server offers no metrics of ours:\n%s", text)
	}
	data, err := os.ReadFile(filepath.Join(root, "docs/operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range compareNames(readPage("docs/operate.md", data), metricName, names) {
		t.Error(problem)
	}
}

// TestReferenceDecisions compares the list of decisions with the pages, or writes it.
func TestReferenceDecisions(t *testing.T) {
	dir := filepath.Join(root, "docs/decisions")
	file := filepath.Join(dir, "README.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const list = "\n## Pages\n\n"
	head, _, ok := strings.Cut(string(data), list)
	if !ok {
		t.Fatal("docs/decisions/README.md has no heading for the list of pages")
	}
	want := head + list
	pages, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbered := regexp.MustCompile(`^\d{4}-[a-z0-9-]+\.md$`)
	for i, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(p)
		if !numbered.MatchString(name) || i > 0 && name[:4] == filepath.Base(pages[i-1])[:4] {
			t.Errorf("docs/decisions/%s: want NNNN-what-was-decided.md, each number once", name)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		want += fmt.Sprintf("* [%s](%s)\n", title, name)
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("the list in docs/decisions/README.md (-want +got); run make generate:\n%s", diff)
	}
}

// TestReferenceCanFail tests a page that lacks a name and has one too many.
func TestReferenceCanFail(t *testing.T) {
	p := readPage("errors.md", []byte("`ErrA`\n`ErrGone` `other`\n"))
	got := compareNames(p, regexp.MustCompile(`^Err`), []string{"ErrA", "ErrNew"})
	want := []string{"errors.md:2: there is no ErrGone", "errors.md: does not say what ErrNew is"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if d := firstDifference("a\nb\n", "a\nc\n"); !strings.Contains(d, "line 2") {
		t.Errorf("a changed line is not found: %s", d)
	}
	if got := exitRow.FindStringSubmatch("| 3 | `ROLLED_BACK` | x |"); len(got) != 3 || got[1] != "3" || got[2] != "ROLLED_BACK" {
		t.Errorf("a row of exit codes is read as %q", got)
	}
	if page := cliPage(fakeProgram); !strings.Contains(page, "\n## txmgr participant add\n\n```text\nUsage: participant add NAME") {
		t.Errorf("a command below a command is missing:\n%s", page)
	}
}
