package main

import (
	"bytes"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// TestLostAnswerOfACommitIsInDoubt: the connection breaks after the request was sent, so a commit
// may have been carried out. A begin may simply be repeated.
func TestLostAnswerOfACommitIsInDoubt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadAtLeast(c, make([]byte, 1), 1) // the request is on its way
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"commit", "tx_01k9x3v7h2m8qf4r6t0bz5n1de"}, 4, " hint:  ask again: txmgr inspect tx_01k9x3v7h2m8qf4r6t0bz5n1de\n"},
		{[]string{"begin"}, 8, "unavailable"},
		{[]string{"list"}, 8, "unavailable"},
	} {
		cmd := txmgr(t, l.Addr().String(), append(c.args, "--request-timeout", "300ms")...)
		var said bytes.Buffer
		cmd.Stderr = &said
		err := cmd.Run()
		if _, exited := err.(*exec.ExitError); !exited || cmd.ProcessState.ExitCode() != c.status || !strings.Contains(said.String(), c.says) {
			t.Errorf("%v: %v, want exit code %d:\n%s", c.args, err, c.status, said.String())
		}
	}
}
