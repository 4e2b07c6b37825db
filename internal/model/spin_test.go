package model

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The limits of one search. One that reaches a limit fails.
const (
	maxMegabytes = 3000
	maxDepth     = 1_000_000
	maxTime      = 15 * time.Minute
)

// result is what Spin reports about one search.
type result struct {
	found    string // the violated property; empty: none
	complete bool   // every state was visited
	states   int
	depth    int
	took     time.Duration
	output   string
}

// missingPrograms names Debian's packages of the programs that are not there.
func missingPrograms() (packages []string) {
	for program, pkg := range map[string]string{"spin": "spin", "cc": "gcc libc6-dev"} {
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	return packages
}

// run generates the verifier of a search in dir, an empty directory, compiles it, and runs it.
func (s search) run(ctx context.Context, dir string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	model, err := filepath.Abs(s.model + ".pml")
	if err != nil {
		return result{}, err
	}
	optimize := "-O0" // a short search takes less time than the optimizer
	if s.long {
		optimize = "-O2"
	}
	compile := []string{optimize, "-w", "-DCOLLAPSE", "-DNFAIR=4", fmt.Sprintf("-DMEMLIM=%d", maxMegabytes), "-o", "pan", "pan.c"}
	verify := []string{"-w22", fmt.Sprintf("-m%d", maxDepth)}
	if s.live {
		verify = append(verify, "-a", "-f")
	} else {
		compile = append(compile, "-DSAFETY")
	}
	if out, err := command(ctx, dir, "spin", append(s.defines(), "-a", model)...); err != nil {
		return result{}, fmt.Errorf("generate the verifier: %w\n%s", err, out)
	}
	if out, err := command(ctx, dir, "cc", compile...); err != nil {
		return result{}, fmt.Errorf("compile the verifier: %w\n%s", err, out)
	}
	out, err := command(ctx, dir, filepath.Join(dir, "pan"), verify...)
	r := parse(out)
	if err != nil && r.found == "" {
		return r, fmt.Errorf("run the verifier: %w\n%s", err, out)
	}
	return r, nil
}

// defines are the flags as Spin wants them.
func (s search) defines() (defines []string) {
	for f := range strings.FieldsSeq(s.flags) {
		defines = append(defines, "-D"+f)
	}
	if s.live {
		defines = append(defines, "-DLIVE")
	}
	if s.only {
		defines = append(defines, "-DONLY")
		if s.finds != "" {
			defines = append(defines, "-DCHECK_"+s.finds+"=1")
		}
	}
	return defines
}

func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	violation = regexp.MustCompile(`(?m)^pan:1: (?:assertion violated +!\(\(?(\w+)\)?\)|(.*?)) \(at depth`)
	stored    = regexp.MustCompile(`(?m)^ *(\d+) states, stored`)
	reached   = regexp.MustCompile(`depth reached (\d+)`)
	elapsed   = regexp.MustCompile(`elapsed time ([0-9.e+]+) seconds`)
)

// incomplete are the signs that a search did not visit every state.
var incomplete = []string{"max search depth too small", "out of memory", "-DMEMLIM bound", "Search not completed", "hash conflicts: -", "aborted"}

// parse reads the output of a verifier.
func parse(out string) result {
	r := result{complete: true, output: out}
	if m := violation.FindStringSubmatch(out); m != nil {
		r.found = m[1] + m[2]
	}
	for _, sign := range incomplete {
		r.complete = r.complete && !strings.Contains(out, sign)
	}
	r.complete = r.complete && stored.MatchString(out)
	r.states, r.depth = number(stored, out), number(reached, out)
	if m := elapsed.FindStringSubmatch(out); m != nil {
		seconds, _ := strconv.ParseFloat(m[1], 64)
		r.took = time.Duration(seconds * float64(time.Second))
	}
	return r
}

// number is what the expression's group matches; zero without a match.
func number(e *regexp.Regexp, s string) int {
	m := e.FindStringSubmatch(s)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// steps are the last steps of the counterexample that a search has left in dir.
func (s search) steps(ctx context.Context, dir string, last int) string {
	trails, _ := filepath.Glob(filepath.Join(dir, "*.trail"))
	if len(trails) != 1 {
		return "no counterexample was written"
	}
	model, err := filepath.Abs(s.model + ".pml")
	if err != nil {
		return err.Error()
	}
	out, _ := command(ctx, dir, "spin", append(s.defines(), "-k", trails[0], "-p", model)...)
	var steps []string
	for line := range strings.Lines(out) {
		line = strings.ReplaceAll(line, filepath.Dir(model)+string(os.PathSeparator), "")
		if strings.Contains(line, "proc") && !strings.Contains(line, "goto") && !strings.Contains(line, "[else]") {
			steps = append(steps, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(steps[max(0, len(steps)-last):], "\n")
}

// table is the results as a table in the order of the searches.
func table(results map[int]result) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%-16s %-58s %-18s %10s %6s %8s\n", "model", "search", "finds", "states", "depth", "seconds")
	total := 0.0
	for i, s := range searches {
		r, ran := results[i]
		if !ran {
			continue
		}
		found := r.found
		if found == "" {
			found = "-"
		}
		total += r.took.Seconds()
		fmt.Fprintf(&b, "%-16s %-58s %-18s %10d %6d %8.1f\n", s.model, s.name, found, r.states, r.depth, r.took.Seconds())
	}
	fmt.Fprintf(&b, "%d searches, %.0f s of search\n", len(results), total)
	return b.String()
}
