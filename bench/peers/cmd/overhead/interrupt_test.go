package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Ctrl-C ends everything that was started, and leaves no file.
func TestInterrupt(t *testing.T) {
	program := filepath.Join(t.TempDir(), "overhead")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir, err := scratch(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd := exec.CommandContext(t.Context(), program, "-contenders", "^(server|embedded|three|outbox)$", "-workers", "2", "-rounds", "1000", "-time", "100ms", "-dir", dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A program that hangs is killed, and the test fails by what it leaves.
	timer := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewReader(stderr)
	for line := ""; !strings.Contains(line, "round 1 of"); {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("it ended early: %v, %s", err, line)
		}
	}
	if n := len(processesOf(t, dir)); n < 5 {
		t.Fatalf("%d processes while it runs; want those of PostgreSQL, MariaDB, and four servers", n)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(string(rest), "overhead: interrupted") {
		t.Errorf("%v\n%s", err, rest)
	}
	if left := processesOf(t, dir); len(left) > 0 {
		t.Errorf("these still run:\n%s", strings.Join(left, "\n"))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// processesOf are the command lines that name the directory, but for that of the program itself.
func processesOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		if line := string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})); strings.Contains(line, dir+"/") {
			out = append(out, line)
		}
	}
	return out
}
