package main

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestServerWhoseLogIsStuck: the pipe into which a server logs is full and is not read. The server
// starts, answers calls that it logs, and ends when it is terminated.
func TestServerWhoseLogIsStuck(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	for err == nil {
		if err = w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err == nil {
			_, err = w.Write(make([]byte, 1024))
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	cmd := txmgr(t, "", "server", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--log-level", "debug")
	cmd.Stderr = w
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	overdue := time.AfterFunc(waitTimeout, func() { _ = cmd.Process.Kill() }) // the missing output fails the test
	defer overdue.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it does not start: %q: %v", line, err)
	}
	c := openClient(t, url)
	b, err := c.Begin(t.Context(), txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enlist(t.Context(), b.ID, txn.Enlistment{Participant: "nobody"}); !errors.Is(err, txn.ErrNotFound) {
		t.Errorf("a call that is refused, which is a line at level INFO: %v", err)
	}
	for range 2000 { // more lines than the queue holds
		if _, err := c.Get(t.Context(), b.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server, after SIGTERM: %v", err)
	}
}
