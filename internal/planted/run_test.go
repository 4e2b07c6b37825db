//go:build planted

package planted

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var only = flag.String("planted.only", "", "plant only the bugs whose name matches this expression")

const (
	atOnce   = 2               // go commands
	testTime = "2m"            // of a test binary
	allTime  = 4 * time.Minute // of a go command, which may have to compile everything
)

// TestPlants plants one bug after the other.
func TestPlants(t *testing.T) {
	chosen := plants()
	if *only != "" {
		match := regexp.MustCompile(*only)
		chosen = slices.DeleteFunc(chosen, func(p plant) bool { return !match.MatchString(p.name) })
	}
	began := time.Now()
	sound(t, chosen)
	healthy := time.Since(began)
	findings := each(chosen, func(p plant) finding {
		f := try(t, p)
		t.Logf("%5.1fs  %s: %s", f.took.Seconds(), p.name, cmp.Or(f.miss, f.how))
		return f
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	caught := 0
	for i, p := range chosen {
		f := findings[i]
		if f.miss == "" {
			caught++
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%.1fs\n", p.name, cmp.Or(f.miss, "caught"), p.pkg, p.test, f.took.Seconds())
	}
	_ = w.Flush()
	t.Logf("%d of %d planted bugs caught; without them the tests pass, in %v; with them %v\n%s",
		caught, len(chosen), healthy.Round(time.Second), time.Since(began).Round(time.Second)-healthy.Round(time.Second), table.String())
	for i, p := range chosen { // last, where who reads the end of a log finds it
		if f := findings[i]; f.miss != "" {
			t.Errorf("%s: not caught by %s of %s, in %s: %s\n%s", p.name, p.test, p.pkg, p.file, f.miss, f.output)
		}
	}
}

// sound runs every test without a bug.
func sound(t *testing.T, chosen []plant) {
	t.Helper()
	type group struct{ pkg, flags, env string }
	tests := map[group][]string{}
	var groups []group
	for _, p := range chosen {
		g := group{p.pkg, p.flags, p.env}
		if tests[g] == nil {
			groups = append(groups, g)
		}
		if !slices.Contains(tests[g], p.test) {
			tests[g] = append(tests[g], p.test)
		}
	}
	runs := each(groups, func(g group) run { return goTest(t, plant{pkg: g.pkg, flags: g.flags, env: g.env}, "", tests[g]...) })
	for i, g := range groups {
		for _, name := range tests[g] {
			if got := runs[i].ended[name]; got != "pass" {
				t.Errorf("%s of %s, without a bug: %s\n%s", name, g.pkg, cmp.Or(runs[i].broken, got, "it did not run"), runs[i].tail())
			}
		}
	}
	for _, p := range chosen {
		i := slices.Index(groups, group{p.pkg, p.flags, p.env})
		if strings.Contains(runs[i].output.String(), p.says) {
			t.Errorf("%s: %s says %q without the bug, too", p.name, p.test, p.says)
		}
	}
}

// said is a line that a test fails with.
var said = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: .{1,160}`)

// finding is what came of one bug.
type finding struct {
	miss   string // why it was not caught
	how    string // the first thing that the test said
	output string
	took   time.Duration
}

func try(t *testing.T, p plant) finding {
	src, err := p.changed()
	if err != nil {
		return finding{miss: err.Error()}
	}
	dir := t.TempDir()
	file, err := filepath.Abs(filepath.Join(root, p.file))
	if err != nil {
		return finding{miss: err.Error()}
	}
	changed, overlay := filepath.Join(dir, filepath.Base(p.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err = errors.Join(err, os.WriteFile(changed, src, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return finding{miss: err.Error()}
	}
	r := goTest(t, p, overlay, p.test)
	f := finding{took: r.took, output: r.tail(), how: strings.TrimSpace(said.FindString(r.output.String()))}
	switch ended := r.ended[p.test]; {
	case r.broken != "":
		f.miss = r.broken
	case ended == "":
		f.miss = "the test did not come to its end"
	case ended != "fail":
		f.miss = "the test says " + ended
	case !strings.Contains(r.output.String(), p.says):
		f.miss = fmt.Sprintf("the test does not say %q", p.says)
	}
	return f
}

// run is one run of go test.
type run struct {
	ended  map[string]string // test -> pass, fail
	broken string            // why the run means nothing
	output strings.Builder
	took   time.Duration
}

// tail is the end of what was said.
func (r *run) tail() string {
	lines := strings.Split(strings.TrimSpace(r.output.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// quickBuild are flags of the go command by which a package is built in two thirds of the time: most of
// what the planted bugs take is building, each a test of its own.
const quickBuild = `'-gcflags=github.com/txmgr/txmgr/...=-l -dwarf=false' '-ldflags=-s -w'`

// goTest runs tests as those of the plant are run, with an overlay unless that is empty. Programs that
// the tests build have the overlay too.
func goTest(t *testing.T, p plant, overlay string, tests ...string) (r run) {
	ctx, cancel := context.WithTimeout(t.Context(), allTime)
	defer cancel()
	began := time.Now()
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout=" + testTime, "-run=^(" + strings.Join(tests, "|") + ")$", "./" + p.pkg}
	c := exec.CommandContext(ctx, "go", append(args, strings.Fields(p.flags)...)...)
	c.Dir = root
	goflags := os.Getenv("GOFLAGS") + " " + quickBuild
	if overlay != "" {
		goflags += " -overlay=" + overlay
	}
	c.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(goflags))
	if p.env != "" {
		c.Env = append(c.Env, p.env)
	}
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	r.took, r.ended = time.Since(began), map[string]string{}
	r.read(&stdout)
	r.output.WriteString(stderr.String())
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		r.broken = fmt.Sprintf("go test did not end within %v", allTime)
	case err != nil && !errors.As(err, &exit):
		r.broken = err.Error()
	}
	return r
}

// read takes the events of go test -json in.
func (r *run) read(events *bytes.Buffer) {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output, FailedBuild string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.output.WriteString(lines.Text() + "\n")
			continue
		}
		r.output.WriteString(e.Output)
		switch {
		case e.FailedBuild != "" || e.Action == "build-fail":
			r.broken = "it does not compile"
		case strings.Contains(e.Output, "panic: test timed out after"):
			r.broken = "the test did not end within " + testTime
		case r.broken == "" && strings.HasPrefix(e.Output, "panic: "):
			r.broken = "the test panicked"
		case e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
			r.ended[e.Test] = e.Action
		}
	}
	if err := lines.Err(); err != nil {
		r.broken = "reading the events of go test: " + err.Error()
	}
}

// each maps a list, some elements at once.
func each[T, R any](list []T, do func(T) R) []R {
	results := make([]R, len(list))
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range list {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			results[i] = do(list[i])
		})
	}
	wg.Wait()
	return results
}
