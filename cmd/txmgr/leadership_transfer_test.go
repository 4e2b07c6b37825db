package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestWhoStopsHandsOver stops the leader while clients call it: another node leads at once, while
// this one still completes calls, and no call fails.
func TestWhoStopsHandsOver(t *testing.T) {
	servers := startCluster(t, 3)
	var all []string
	for address := range servers {
		all = append(all, address)
	}
	leader := ""
	await(t, "a cluster of three voters", func() bool {
		s, err := statusOf(t, all[0])
		if err != nil {
			return false
		}
		voters := 0
		for _, m := range s.Members {
			if m.Voter && m.API != "" {
				voters++
			}
			if m.Leader {
				leader = m.API
			}
		}
		return voters == 3 && leader != ""
	})

	c := openClient(t, strings.Join(all, ","))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	warm := make(chan struct{}, 1)
	for range 8 {
		running.Go(func() {
			for ctx.Err() == nil {
				b, err := c.Begin(t.Context(), txn.Options{})
				if err == nil {
					_, err = c.Commit(t.Context(), b.ID, txn.CommitRequest{})
				}
				if err != nil {
					t.Errorf("while one stops: %v", err)
					return
				}
				select {
				case warm <- struct{}{}:
				default:
				}
			}
		})
	}
	<-warm
	held := holdCall(t, leader)
	stopped := servers[leader]
	if err := stopped.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- stopped.Wait() }()
	for _, address := range all {
		if address != leader {
			await(t, "new leader", func() bool {
				s, err := statusOf(t, address)
				return err == nil && slices.ContainsFunc(s.Members, func(m admin.Member) bool { return m.Leader && m.API != leader })
			})
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("it handed leadership over only when it had ended: %v", err)
	default:
	}
	// The call in progress still gets its answer.
	if _, err := held.Write([]byte("}")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(held).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 ") {
		t.Errorf("%q: %v", line, err)
	}
	_ = held.Close()
	if err := <-ended; err != nil {
		t.Errorf("the server that led, after SIGTERM: %v", err)
	}
}

// holdCall begins a call and withholds its last byte.
func holdCall(t *testing.T, address string) net.Conn {
	t.Helper()
	held, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	const call = "POST /txmgr.v1.TransactionService/Begin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
		"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
	if _, err := held.Write([]byte(call)); err != nil {
		t.Fatal(err)
	}
	// The server asks for the body, so the call is in progress.
	want := []byte("HTTP/1.1 100 Continue\r\n\r\n")
	if _, err := io.ReadFull(held, want); err != nil || !strings.Contains(string(want), " 100 ") {
		t.Fatalf("%q: %v", want, err)
	}
	if _, err := held.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	return held
}

// startCluster starts servers that form a cluster, and end with the test.
func startCluster(t *testing.T, size int) map[string]*exec.Cmd {
	t.Helper()
	raft := freeAddresses(t, size)
	servers := map[string]*exec.Cmd{}
	for _, address := range raft {
		cmd := txmgr(t, "", "server", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--log-level", "error",
			"--raft-listen", address, "--bootstrap-expect", "3", "--join", strings.Join(raft, ","))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // its exit status does not matter
			_ = cmd.Wait()
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if err != nil || !ok {
			t.Fatalf("%q: %v", line, err)
		}
		servers[url] = cmd
	}
	return servers
}

// freeAddresses returns addresses that are free just before they are used.
func freeAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // closed together, so that none is chosen twice
		all = append(all, l.Addr().String())
	}
	return all
}

// statusOf returns the status of one server.
func statusOf(t *testing.T, address string) (admin.Status, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return openClient(t, address).Admin().Status(ctx)
}

func openClient(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Open(client.Config{Address: address, RequestTimeout: waitTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its calls have ended
	return c
}

// await polls until ok, or until waitTimeout has passed.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	limit := time.After(waitTimeout)
	for !ok() {
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("no %s within %v", what, waitTimeout)
		}
	}
}
