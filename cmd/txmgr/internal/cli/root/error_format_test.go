package root

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
)

// failingArgs are arguments with which commands fail that would otherwise run, or need no
// coordinator.
var failingArgs = map[string][]string{
	"txmgr server":                {"--data-dir", "file/x", "--listen", "127.0.0.1:0"},
	"txmgr dev":                   {"--data-dir", "file/x", "--listen", "127.0.0.1:0"},
	"txmgr demo":                  {"--nodes", "-1"},
	"txmgr bench survival":        {"--rounds", "0"},
	"txmgr bench timeouts":        {"--rounds", "0"},
	"txmgr bench adaptive":        {"--apps", "none"},
	"txmgr config init":           {"--dir", "file/x", "--node", "a=127.0.0.1"},
	"txmgr config show":           {"missing.yaml"},
	"txmgr config validate":       {"missing.yaml"},
	"txmgr version":               {"too", "many"},
	"txmgr snapshot inspect":      {"missing.snap"},
	"txmgr snapshot restore":      {"missing.snap", "--data-dir", "restored"},
	"txmgr completion bash":       {"too", "many"},
	"txmgr completion zsh":        {"too", "many"},
	"txmgr completion fish":       {"too", "many"},
	"txmgr completion powershell": {"too", "many"},
}

// With --output json standard error of every command can be parsed line by line: logs of one form,
// and at most one error of another form, which is last.
func TestErrorsAndLogsHaveOneShape(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	root.InitDefaultCompletionCmd()
	commands, tried := 0, 0
	walk(root, func(c *cobra.Command) {
		if !c.Runnable() || c.HasSubCommands() || c.Hidden {
			return
		}
		commands++
		path := strings.Fields(c.CommandPath())[1:]
		checkErrorFormat(t, 2, append(slices.Clone(path), "--no-such-flag"))
		if words := failingArgs[c.CommandPath()]; words != nil {
			checkErrorFormat(t, -1, append(slices.Clone(path), words...))
			tried++
			return
		}
		for line := range strings.Lines(c.Example + "\n") {
			for _, words := range commandLines(line) {
				if !slices.Equal(words[:min(len(words), len(path))], path) {
					continue // an example of another command
				}
				checkErrorFormat(t, -1, words)
				tried++
				return
			}
		}
		t.Errorf("%s: no example of it was tried", c.CommandPath())
	})
	if commands < 50 || tried < commands {
		t.Errorf("%d commands, %d tried: the test looks for the wrong thing", commands, tried)
	}
	for name := range failingArgs {
		if c, _, err := root.Find(strings.Fields(name)[1:]); err != nil || c.CommandPath() != name {
			t.Errorf("there is no %s", name)
		}
	}
}

// checkErrorFormat runs a command that fails; status -1 is any but 0.
func checkErrorFormat(t *testing.T, status int, words []string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(string) string { return "" }}
	words = append(slices.Clone(words), "--output", "json", "--address", "127.0.0.1:1", "--no-input", "--yes")
	got := a.Run(Command(a), words)
	if got == 0 || status >= 0 && got != status {
		t.Errorf("%q: exit code %d: %s%s", words, got, out.String(), errs.String())
		return
	}
	if out.Len() > 0 && !json.Valid(out.Bytes()) {
		t.Errorf("%q: standard output is no JSON: %s", words, out.String())
	}
	lines := slices.Collect(strings.Lines(errs.String()))
	for i, line := range lines {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Errorf("%q: no JSON: %s", words, line)
			continue
		}
		last := i == len(lines)-1
		switch failure, _ := o["error"].(map[string]any); {
		case last && len(o) == 1 && slices.Equal(slices.Sorted(maps.Keys(failure)), []string{"cause", "code", "hint", "message", "state"}):
			if failure["code"] == "" || failure["message"] == "" {
				t.Errorf("%q: says nothing: %s", words, line)
			}
		case !last && o["time"] != nil && o["level"] != nil && o["msg"] != nil:
		default:
			t.Errorf("%q: neither a log nor the error: %s", words, line)
		}
	}
	if len(lines) == 0 {
		t.Errorf("%q: exit code %d, and no error", words, got)
	}
}
