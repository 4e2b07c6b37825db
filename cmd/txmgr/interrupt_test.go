package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInterruptedIs130 interrupts a watch once it has printed something, so that it certainly runs.
func TestInterruptedIs130(t *testing.T) {
	address := startServer(t)
	var problems bytes.Buffer
	watch := txmgr(t, address, "watch", "-o", "jsonl")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	watch.Stderr = &problems
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		seen <- line
	}()
	// The begin of a watch is not observable, so changes are made all the time.
	line := ""
	for line == "" {
		begin := txmgr(t, address, "begin", "-q", "--timeout", "100ms")
		if out, err := begin.CombinedOutput(); err != nil {
			t.Fatalf("begin: %v: %s", err, out)
		}
		select {
		case line = <-seen:
		default:
		}
	}
	if !strings.HasPrefix(line, `{"id":"tx_`) {
		t.Errorf("saw %q", line)
	}
	if err := watch.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = watch.Wait()
	if got := watch.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit code %d, want 130: %s", got, problems.String())
	}
	if diff := cmp.Diff(`{"error":{"code":"INTERRUPTED","message":"interrupted","cause":"","state":"","hint":""}}`+"\n", problems.String()); diff != "" {
		t.Error(diff)
	}
}

// startServer starts a throw-away coordinator, which ends with the test.
func startServer(t *testing.T) (address string) {
	t.Helper()
	cmd := txmgr(t, "", "server", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--log-level", "error")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the coordinator, after an interrupt: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q: %v", line, err)
	}
	return address
}

// txmgr is this program, which TestMain puts into PATH.
func txmgr(t *testing.T, address string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("txmgr", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TXMGR_ADDR=" + address}
	return cmd
}
