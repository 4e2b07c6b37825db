package doctest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/ruletest"
)

// scriptTime bounds one script with its servers.
const scriptTime = 3 * time.Minute

// script is the blocks of one page that run together.
type script struct {
	page, name string
	needs      string // the dependencies
	server     string // the server's command
	steps      []step
}

// step is one block and its expected output: patterns, each for one line, in their order.
type step struct {
	line  int
	shell string
	want  []string
}

// scripts collects the blocks that are marked to be run.
func scripts(pages []*page) []*script {
	var all []*script
	for _, p := range pages {
		byName := map[string]*script{}
		for i, b := range p.blocks {
			name := b.attrs["test"]
			if name == "" {
				continue
			}
			s := byName[name]
			if s == nil {
				s = &script{page: p.path, name: name, server: "server"}
				byName[name] = s
				all = append(all, s)
			}
			if b.attrs["needs"] != "" {
				s.needs = b.attrs["needs"]
			}
			if b.attrs["server"] != "" {
				s.server = b.attrs["server"]
			}
			st := step{line: b.line, shell: b.text}
			if i+1 < len(p.blocks) && p.blocks[i+1].lang == "text" {
				st.want = strings.Split(strings.TrimSpace(p.blocks[i+1].text), "\n")
			}
			s.steps = append(s.steps, st)
		}
	}
	return all
}

// run runs the script with the environment and returns what is wrong.
func (s *script) run(ctx context.Context, dir string, env []string) []string {
	const mark = "\x01step "
	var text strings.Builder
	for i, st := range s.steps {
		fmt.Fprintf(&text, "printf '\\n%s%d\\n'\n%s\n", strings.ReplaceAll(mark, "\x01", `\001`), i, st.shell)
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text.String())
	cmd.Dir, cmd.Env = dir, env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// The processes of the script end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	endGroup(cmd)
	printed := strings.Split(out.String(), "\n"+mark)[1:]
	if err != nil {
		last := s.steps[max(len(printed), 1)-1]
		return []string{fmt.Sprintf("%s:%d: script %s: %v; it printed:\n%s", s.page, last.line, s.name, err, out.String())}
	}
	var problems []string
	for i, st := range s.steps {
		if missing := unprinted(st.want, printed[i]); missing != "" {
			problems = append(problems, fmt.Sprintf("%s:%d: script %s does not print %q at its place; it printed:\n%s", s.page, st.line, s.name, missing, printed[i]))
		}
	}
	return problems
}

// endGroup ends what the script has left behind, and waits for that, so that nothing writes into a directory
// that is being removed.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process == nil {
		return
	}
	for range 500 {
		if syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) != nil {
			return // none is left
		}
		<-time.After(10 * time.Millisecond)
	}
}

// unprinted returns the first line that was not printed in its order.
func unprinted(want []string, printed string) string {
	lines := strings.Split(printed, "\n")
	for _, w := range want {
		pattern := regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(collapseSpaces(w)), "…", ".*") + `$`)
		for {
			if len(lines) == 0 {
				return w
			}
			line := collapseSpaces(lines[0])
			lines = lines[1:]
			if pattern.MatchString(line) {
				break
			}
		}
	}
	return ""
}

// collapseSpaces makes lines equal that differ only in the width of their columns.
func collapseSpaces(line string) string { return strings.Join(strings.Fields(line), " ") }

func TestScripts(t *testing.T) {
	b := repositoryDocs(t)
	all := scripts(b.pages)
	if len(all) == 0 {
		t.Fatal("no page has a script: the rule would hold for nothing")
	}
	for _, s := range all {
		t.Run(strings.ReplaceAll(s.page, "/", "_")+":"+s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
			defer cancel()
			home := t.TempDir()
			env := append(os.Environ(), "HOME="+home, "NO_COLOR=1", "PATH="+filepath.Dir(txmgr(t))+":"+os.Getenv("PATH"))
			for _, need := range strings.FieldsFunc(s.needs, func(r rune) bool { return r == ',' }) {
				start := dependencies[need]
				if start == nil {
					t.Fatalf("%s: script %s needs %q, which this test does not know", s.page, s.name, need)
				}
				env = append(env, start(ctx, t, home)...)
			}
			env = append(env, "TXMGR_ADDR="+startServer(ctx, t, env, s.server))
			for _, problem := range s.run(ctx, t.TempDir(), env) {
				t.Error(problem)
			}
		})
	}
}

// TestScriptsCanFail runs a page whose scripts are wrong.
func TestScriptsCanFail(t *testing.T) {
	want, fsys := ruletest.Read(t, "testdata/script/scripts.txtar")
	all, err := pages(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range scripts(all) {
		for _, problem := range s.run(t.Context(), t.TempDir(), os.Environ()) {
			first, _, _ := strings.Cut(problem, "\n")
			got = append(got, first)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
