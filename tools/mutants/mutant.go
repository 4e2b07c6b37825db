package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// bench compiles and runs the tests of one package.
type bench struct {
	pkg    string // import path
	dir    string // of the package
	files  []string
	short  bool
	run    string        // tests that match this are run
	not    string        // except those that match this
	memory int           // limit of the tests' address space, in MiB
	limit  time.Duration // of one run of the tests
	took   time.Duration // the last run of the tests, without their compilation
	flags  []string      // known to the test binary, which keep it from writing beside the tests
}

// verdict is the result of a mutant.
type verdict string

const (
	survived   verdict = "survived"
	killed     verdict = "killed"
	timedOut   verdict = "killed (timeout)"
	notBuilt   verdict = "does not compile"
	untestable verdict = "could not be tried"
)

// try compiles a mutant and runs the tests. The text is the reason of the verdict.
func (b *bench) try(ctx context.Context, m mutation, src []byte) (verdict, string) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return untestable, err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}})
	if err = errors.Join(err, os.WriteFile(changed, m.apply(src), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return untestable, err.Error()
	}
	return b.build(ctx, dir, overlay)
}

// build compiles the tests, with an overlay unless that is empty, and runs them.
func (b *bench) build(ctx context.Context, dir, overlay string) (verdict, string) {
	// It is the tests' TMPDIR: PostgreSQL's programs, which run as another user, need access.
	if err := os.Chmod(dir, 0o755); err != nil {
		return untestable, err.Error()
	}
	binary := filepath.Join(dir, "tests")
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	if out, err := exec.CommandContext(ctx, "go", append(args, b.pkg)...).CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return untestable, ctx.Err().Error()
		}
		return notBuilt, string(out)
	}
	if b.flags == nil {
		b.flags = quietFlags(binary)
	}
	return b.test(ctx, dir, overlay, binary)
}

// test runs a binary of tests, until the time for all mutants has passed, or that of one run.
func (b *bench) test(all context.Context, dir, overlay, binary string) (verdict, string) {
	ctx, cancel := context.WithTimeout(all, b.limit)
	defer cancel()
	args := append([]string{"-c", fmt.Sprintf(`ulimit -v %d && exec "$@"`, b.memory<<10), "sh", binary, "-test.failfast", "-test.run=" + b.run, "-test.skip=" + b.not}, b.flags...)
	if b.short {
		args = append(args, "-test.short")
	}
	c := exec.CommandContext(ctx, "sh", args...)
	c.Dir = b.dir
	c.Env = append(os.Environ(), "TMPDIR="+dir)
	if overlay != "" {
		c.Env = append(c.Env, "GOFLAGS=-overlay="+overlay) // for programs that the tests build
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	began := time.Now()
	err := c.Run()
	b.took = time.Since(began)
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // processes that the tests left running
	}
	switch {
	case err == nil:
		return survived, out.String()
	case all.Err() != nil: // the time for all mutants has passed: no result for this one
		return untestable, all.Err().Error()
	case ctx.Err() != nil:
		return timedOut, out.String()
	}
	return killed, out.String()
}

// quietFlags are the flags of package rapid that keep failures out of testdata, if the binary has
// them.
func quietFlags(binary string) []string {
	out, _ := exec.Command(binary, "-h").CombinedOutput() // ends with an error by design
	flags := []string{}
	if strings.Contains(string(out), "-rapid.nofailfile") {
		flags = append(flags, "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	return flags
}
