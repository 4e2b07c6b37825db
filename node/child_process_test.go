package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childMode is the environment variable that makes the test binary a child process, which a test
// may let end.
const childMode = "NODE_TEST_CHILD"

const (
	modeFail    = "fail"    // open a node in the current directory, whose log fails
	modeVersion = "version" // wait for the end of the input, and print the checksum of the program
)

func TestMain(m *testing.M) {
	switch mode := os.Getenv(childMode); mode {
	case "":
		goleak.VerifyTestMain(m)
	case modeFail:
		slow := writerFunc(func(p []byte) (int, error) { <-time.After(50 * time.Millisecond); return os.Stderr.Write(p) })
		n, err := Open(context.Background(), Config{DataDir: "data", Logger: slog.New(slog.NewTextHandler(slow, nil))})
		if err != nil {
			panic(err)
		}
		n.fail(errors.New("the disk is gone"))
	case modeVersion:
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Println(versionOf("", nil, executablePath))
	}
}

// TestLastLineOfAProcess: when the log fails the process logs the cause and ends with exit code
// 1, even if its logger is slow.
func TestLastLineOfAProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), childMode+"="+modeFail)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the process ends with %v", err)
	}
	if !strings.Contains(string(out), "the disk is gone") {
		t.Errorf("it does not say why: %s", out)
	}
}

// TestVersionOfAProgramThatWasReplaced: a process reports the version of the program that it runs,
// not of the one that has replaced the file for the next start. It is not parallel: a child of
// another test may hold the file open, which then cannot be executed.
func TestVersionOfAProgramThatWasReplaced(t *testing.T) {
	dir := t.TempDir()
	program, next := filepath.Join(dir, "program"), filepath.Join(dir, "next")
	code, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{program: code, next: []byte("another one")} {
		if err := os.WriteFile(name, b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := versionOf("", nil, func() (string, error) { return program, nil })
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childMode+"="+modeVersion)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(next, program), in.Close()); err != nil {
		t.Error(err)
	}
	if got, _ := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(got) != want {
		t.Errorf("it says %q; it is %s", got, want)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
