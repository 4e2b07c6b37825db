package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// program is the part of the command line under test that the rules need.
type program interface {
	// commands returns the names of the commands below a command.
	commands(path []string) []string
	// help returns the help text of a command.
	help(path []string) string
}

// binary runs the program itself: it gets the commands by shell completion, so that it does not
// depend on the layout of the help.
type binary struct {
	path string

	mu    sync.Mutex
	known map[string]string // by arguments
}

func (b *binary) run(args ...string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(args, "\x00")
	if out, ok := b.known[key]; ok {
		return out
	}
	cmd := exec.Command(b.path, args...)
	cmd.Env = append(os.Environ(), "TXMGR_ADDR=http://127.0.0.1:1") // no coordinator is called for ids to complete
	out, err := cmd.Output()
	if err != nil {
		out = nil
	}
	if b.known == nil {
		b.known = map[string]string{}
	}
	b.known[key] = string(out)
	return string(out)
}

func (b *binary) commands(path []string) []string {
	var names []string
	for line := range strings.Lines(b.run(slices.Concat([]string{"__complete"}, path, []string{""})...)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name != "" && name[0] >= 'a' && name[0] <= 'z' {
			names = append(names, name)
		}
	}
	return names
}

func (b *binary) help(path []string) string {
	return b.run(slices.Concat(path, []string{"--help"})...)
}

// binaryPath is where TestMain builds the program.
var binaryPath string

var build = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binaryPath, root+"/cmd/txmgr").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
})

// txmgr builds the program, once for all tests, and returns its path.
func txmgr(t *testing.T) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return binaryPath
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "txmgr-doctest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaryPath = filepath.Join(dir, "txmgr")
	return m.Run()
}

var (
	// commandStart splits a shell line where a command may begin.
	commandStart = regexp.MustCompile(`\|\|?|&&|;|\$\(|[({]`)
	flagged      = regexp.MustCompile(`^(--?[a-zA-Z][\w-]*)`)
	quoted       = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	// prefixWord matches words of the shell and variables that may precede a command.
	prefixWord = regexp.MustCompile(`^([A-Z_]+=.*|!|do|else|if|sudo|then|time|until|while)$`)
	// placeholderWord matches a placeholder in a usage line, or on a page.
	placeholderWord = regexp.MustCompile(`^[A-Z][A-Z_-]*$|^[<\[$'"{]`)
)

// checkCommands finds commands and flags that the program does not have.
func checkCommands(b *docSet) []string {
	var findings []string
	for _, p := range b.pages {
		if historicalPages.MatchString(p.path) {
			continue
		}
		for _, bl := range p.blocks {
			if !slices.Contains([]string{"sh", "bash", "console", "shell"}, bl.lang) {
				continue
			}
			for _, s := range joined(bl) {
				for _, problem := range checkLine(b.cli, s.text) {
					findings = append(findings, fmt.Sprintf("%s:%d: %s", p.path, s.line, problem))
				}
			}
		}
		for _, s := range p.inline {
			if strings.HasPrefix(s.text, "txmgr ") {
				for _, problem := range checkLine(b.cli, s.text) {
					findings = append(findings, fmt.Sprintf("%s:%d: %s", p.path, s.line, problem))
				}
			}
		}
	}
	return findings
}

// joined returns the lines of a block, each that ends in a backslash joined with the next. Of a
// console block only the typed lines count.
func joined(b block) []span {
	var all []span
	held, from := "", 0
	for i, line := range strings.Split(b.text, "\n") {
		if held == "" {
			from = b.line + i
			typed, ok := strings.CutPrefix(line, "$ ")
			if b.lang == "console" && !ok {
				continue
			}
			line = typed
		}
		if more, ok := strings.CutSuffix(line, `\`); ok {
			held += more + " "
			continue
		}
		if line = held + line; !strings.HasPrefix(strings.TrimSpace(line), "#") {
			all = append(all, span{line, from})
		}
		held = ""
	}
	return all
}

// checkLine checks every call of txmgr in a shell line.
func checkLine(cli program, line string) []string {
	var problems []string
	plain := quoted.ReplaceAllString(line, "''")
	for _, part := range commandStart.Split(plain, -1) {
		words := strings.Fields(strings.TrimRight(part, ")}"))
		for len(words) > 0 && prefixWord.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 0 && words[0] == "txmgr" {
			problems = append(problems, checkCall(cli, words[1:])...)
		}
	}
	return problems
}

func checkCall(cli program, words []string) []string {
	var path, flags []string
	below := cli.commands(nil)
	skip := false
	for _, w := range words {
		m := flagged.FindStringSubmatch(w)
		switch {
		case w == "#" || w == ">" || w == "&":
			skip = true
		case skip:
		case m != nil:
			flags = append(flags, m[1])
		case slices.Contains(below, w):
			path = append(path, w)
			below = cli.commands(path)
		case len(path) == 0 && len(flags) == 0 && !placeholderWord.MatchString(w):
			return []string{fmt.Sprintf("txmgr has no command %q", w)}
		case len(below) > 0 && len(flags) == 0 && !placeholderWord.MatchString(w):
			return []string{fmt.Sprintf("txmgr %s has no command %q", strings.Join(path, " "), w)}
		case len(path) > 0:
			below = nil
		}
	}
	help := "" // of the command and its parents, which alone may explain the global flags
	for i := range len(path) + 1 {
		help += cli.help(path[:i]) + "\n"
	}
	var problems []string
	for _, f := range flags {
		if !regexp.MustCompile(`(^|[\s,|\[])` + regexp.QuoteMeta(f) + `($|[\s,|=\]])`).MatchString(help) {
			problems = append(problems, fmt.Sprintf("%s has no flag %s", strings.Join(append([]string{"txmgr"}, path...), " "), f))
		}
	}
	return problems
}
