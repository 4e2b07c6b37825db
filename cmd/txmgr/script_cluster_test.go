package main

import (
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdPorts finds free ports, all at once, so that none is chosen twice.
func cmdPorts(ts *testscript.TestScript, _ bool, names []string) {
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		defer func() { _ = l.Close() }()
		_, port, err := net.SplitHostPort(l.Addr().String())
		ts.Check(err)
		ts.Setenv(name, port)
	}
}

// cmdEventually waits for a condition that becomes true by itself, such as a bootstrapped cluster.
func cmdEventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: eventually CMD...")
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	limit := time.After(waitTimeout)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if (err == nil) != neg {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			ts.Fatalf("%v: not within %v: %v", args, waitTimeout, err)
		}
	}
}

// cmdHangup sends the coordinator the signal of systemctl reload, and waits until it logs that it
// has received it.
func cmdHangup(ts *testscript.TestScript, _ bool, _ []string) {
	s := ts.Value(serverKey{}).(*testServer)
	ts.Check(s.cmd.Process.Signal(syscall.SIGHUP))
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for limit := time.After(waitTimeout); !strings.Contains(s.out.String(), "SIGHUP has no effect: "); {
		select {
		case err := <-s.exited:
			s.cmd = nil
			ts.Fatalf("a hangup ended it: %v\n%s", err, s.out)
		case <-limit:
			ts.Fatalf("no log line about SIGHUP:\n%s", s.out)
		case <-again.C:
		}
	}
}
