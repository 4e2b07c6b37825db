package buildversion

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// printVersion is the environment variable by which a test makes this program a child that waits for the
// end of its input, and prints the checksum of its program.
const printVersion = "TXMGR_TEST_PRINT_VERSION"

func TestMain(m *testing.M) {
	if os.Getenv(printVersion) == "" {
		os.Exit(m.Run())
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(versionOf("", nil, executablePath))
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
	cmd.Env = append(os.Environ(), printVersion+"=1")
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
