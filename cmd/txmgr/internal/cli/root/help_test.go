package root

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/serve"
)

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, child := range c.Commands() {
		walk(child, visit)
	}
}

func newRoot() *cobra.Command { return Command(&cli.App{Env: func(string) string { return "" }}) }

func TestEveryCommandIsExplained(t *testing.T) {
	walk(newRoot(), func(c *cobra.Command) {
		if c.Short == "" || c.Long == "" {
			t.Errorf("%s: no help", c.CommandPath())
		}
		for line := range strings.Lines(c.Long) {
			if len(strings.TrimRight(line, "\n")) > 100 {
				t.Errorf("%s: long line: %q", c.CommandPath(), line)
			}
		}
		if c.Runnable() && !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s: no example", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s: --%s: %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
	})
}

// Examples are valid command lines.
func TestExamplesAreUnderstood(t *testing.T) {
	text := serve.DevBanner[strings.Index(serve.DevBanner, "In another terminal"):] + demoEnd
	walk(newRoot(), func(c *cobra.Command) { text += c.Example + "\n" })
	seen := 0
	for line := range strings.Lines(text) {
		for _, words := range commandLines(line) {
			seen++
			parseExample(t, line, words)
		}
	}
	if seen < 40 {
		t.Errorf("only %d command lines were tried", seen)
	}
}

func parseExample(t *testing.T, line string, words []string) {
	t.Helper()
	root := newRoot()
	root.InitDefaultHelpCmd()
	target, rest, err := root.Find(words)
	if err != nil {
		t.Errorf("%q: %v", line, err)
		return
	}
	target.InitDefaultHelpFlag()
	if err := target.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	if err := target.ValidateArgs(target.Flags().Args()); err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

// commandLines finds the arguments after each "txmgr" in a line of shell. It parses as much of the
// shell as the examples need.
func commandLines(line string) (all [][]string) {
	var words []string
	word, quote, inWord := "", rune(0), false
	end := func(command bool) {
		if inWord {
			words = append(words, word)
		}
		word, inWord = "", false
		if !command {
			return
		}
		if i := slices.Index(words, "txmgr"); i >= 0 {
			all = append(all, words[i+1:])
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#':
			end(true)
			return all
		case strings.ContainsRune("|;()\n", r):
			end(true)
		case r == ' ':
			end(false)
		default:
			word, inWord = word+string(r), true
		}
	}
	return all
}
