package logstore

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// process is a running child.
type process struct {
	report
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	errs  bytes.Buffer
}

// start runs the test binary as a child, under wrap if that is given.
func start(t *testing.T, mode, path string, wrap ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(wrap, self)
	p := &process{cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Env = append(os.Environ(), childMode+"="+mode, childPath+"="+path)
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	return p
}

// next reads one line of the child's output; false at the end.
func (p *process) next() bool {
	if !p.lines.Scan() {
		return false
	}
	p.read(p.lines.Text())
	return true
}

// end ends the child's input, reads the rest of its output and waits for it.
func (p *process) end() error {
	p.in.Close()
	for p.next() {
	}
	err := p.cmd.Wait()
	p.text += p.errs.String()
	return err
}

func needStrace(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("this test needs strace: apt-get install strace")
	}
}

// traceKill runs a command that is killed when it enters the given system call for the when-th time.
func traceKill(call string, when int) []string {
	return []string{
		"strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + call,
		"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, when),
	}
}

// A process is killed at any moment, again and again, with the same file. Everything that was
// acknowledged as durable is there.
func TestKill(t *testing.T) {
	path := newPath(t)
	rng := rand.New(rand.NewPCG(3, 4))
	total := uint64(0)
	for round := range 12 {
		p := start(t, modeWrite, path)
		for n := rng.IntN(80); n >= 0; n-- {
			if !p.next() {
				t.Fatalf("round %d: the child ended by itself:\n%s%s", round, p.text, p.errs.String())
			}
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.end(); err == nil || !p.opened {
			t.Fatalf("round %d: %v\n%s", round, err, p.text)
		}
		if p.acks == 0 { // killed so early that nothing was new
			p.acked = total
		}
		total = p.wantAcked(t, path)
	}
	if total < 200 {
		t.Errorf("only %d entries in all rounds", total)
	}
}

// A process is killed before each of the system calls by which the log goes on in another file, or lets one go.
func TestKillBetweenSegments(t *testing.T) {
	needStrace(t)
	template := newPath(t)
	closeStore(t, open(t, template, Options{}))
	for call, most := range map[string]int{"renameat": 4, "fsync": 6, "unlinkat": 2} {
		before := callsOfOpen(t, template, call)
		for when := 1; when <= most; when++ {
			path := copyStore(t, template)
			p := start(t, modeTurn, path, traceKill(call, before+when)...)
			if err := p.end(); err == nil || !p.opened || p.acks < 20 {
				t.Errorf("%s at call %d: %v after %d appends\n%s", call, when, err, p.acks, p.text)
			}
			p.wantAcked(t, path)
		}
	}
}

// callsOfOpen counts how often opening a store calls something, in the thread that does it.
func callsOfOpen(t *testing.T, path, call string) int {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	p := start(t, modeHold, path, "strace", "-f", "-qq", "-o", trace, "-e", "trace="+call)
	if err := p.end(); err != nil {
		t.Fatalf("%v\n%s", err, p.text)
	}
	perThread := map[string]int{}
	for line := range strings.Lines(string(readFile(t, trace))) {
		if thread, rest, _ := strings.Cut(line, " "); strings.Contains(rest, "(") {
			perThread[thread]++
		}
	}
	most := 0
	for _, n := range perThread {
		most = max(most, n)
	}
	return most
}

// One failed system call, and the store acknowledges nothing any more.
func TestFirstErrorStops(t *testing.T) {
	needStrace(t)
	cases := []struct {
		call, fault, text string
		when              []int
	}{
		{"pwrite64", "ENOSPC", "no space left on device", []int{1, 2, 5, 8, 31}},
		{"pwrite64", "EIO", "input/output error", []int{1, 2, 5, 8, 31}},
		{"fdatasync", "EIO", "input/output error", []int{1, 2, 5, 8, 31}},
		{"fsync", "EIO", "input/output error", []int{1, 2}},    // of the directory, when a segment is full
		{"renameat", "EIO", "input/output error", []int{1, 2}}, // the same
	}
	for _, c := range cases {
		template := newPath(t)
		closeStore(t, open(t, template, Options{}))
		before := callsOfOpen(t, template, c.call)
		for _, when := range c.when {
			t.Run(fmt.Sprintf("%s/%s/%d", c.call, c.fault, when), func(t *testing.T) {
				path := copyStore(t, template)
				p := start(t, modeFail, path, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace="+c.call,
					"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", c.call, c.fault, before+when))
				if err := p.end(); err != nil {
					t.Fatalf("%v\n%s", err, p.text)
				}
				if !p.opened || !p.stopped || p.late || p.failures != 1 || p.errors != 1 || !strings.Contains(p.text, c.text) {
					t.Errorf("opened %v, stopped %v, acknowledged after the error %v, OnFailure called %d times:\n%s",
						p.opened, p.stopped, p.late, p.failures, p.text)
				}
				if want := uint64(when - 1); c.call == "fdatasync" && p.acks != want {
					t.Errorf("%d acknowledged before the failing fdatasync, want %d: each costs one", p.acks, want)
				}
				p.wantAcked(t, path)
			})
		}
	}
}

// What the kernel holds of the file must reach the disk before raft may rely on it.
func TestOpenSyncs(t *testing.T) {
	needStrace(t)
	path := newPath(t)
	closeStore(t, open(t, path, Options{}))
	p := start(t, modeHold, path, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1")
	if err := p.end(); err == nil || p.opened || !strings.Contains(p.text, "input/output error") || !strings.Contains(p.text, path) {
		t.Errorf("%v, want a failed Open:\n%s", err, p.text)
	}
}

// The name of the settings, too: a vote that was killed before its name was on the disk counts after the start.
func TestOpenSyncsTheDirectory(t *testing.T) {
	needStrace(t)
	path := newPath(t)
	closeStore(t, open(t, path, Options{}))
	trace := filepath.Join(t.TempDir(), "trace")
	p := start(t, modeHold, path, "strace", "-f", "-qq", "-y", "-o", trace, "-e", "trace=fsync")
	if err := p.end(); err != nil {
		t.Fatalf("%v\n%s", err, p.text)
	}
	if said := string(readFile(t, trace)); !strings.Contains(said, "<"+filepath.Dir(path)+">") {
		t.Errorf("the directory was not synced:\n%s", said)
	}
}

func TestDiskFull(t *testing.T) {
	path := newPath(t)
	closeStore(t, open(t, path, Options{}))
	p := start(t, modeFull, path)
	if err := p.end(); err != nil {
		t.Fatalf("%v\n%s", err, p.text)
	}
	if !p.stopped || p.late || p.failures != 1 || p.acks < 10 || !strings.Contains(p.text, "file too large") {
		t.Errorf("stopped %v, acknowledged after the error %v, %d before it, OnFailure called %d times:\n%s",
			p.stopped, p.late, p.acks, p.failures, p.text)
	}
	last := p.wantAcked(t, path)
	s := open(t, path, Options{}) // there is space again
	store(t, s, entries(last+1, last+500, 1, childSize)...)
}
