package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
)

// waitTimeout bounds every wait. It is long because a shared disk can stall for
// half a minute; nothing is measured by it.
const waitTimeout = 2 * time.Minute

// coordinator is a `txmgr server` process that can be killed and started again
// on the same directory and address.
type coordinator struct {
	t       *testing.T
	dir     string // holds the data directory and the address file
	args    []string
	address string // fixed by the first start

	mu  sync.Mutex
	cmd *exec.Cmd
	err bytes.Buffer  // of the running process
	end chan struct{} // closed when it has ended
}

func newCoordinator(t *testing.T, args ...string) *coordinator {
	c := &coordinator{t: t, dir: t.TempDir(), args: args}
	t.Cleanup(c.kill)
	return c
}

func (c *coordinator) data() string { return filepath.Join(c.dir, "data") }

// start runs the server, with a failpoint unless that is empty, and returns when
// it serves.
func (c *coordinator) start(failpoint string, wrap ...string) {
	c.t.Helper()
	file := filepath.Join(c.dir, "address")
	_ = os.Remove(file)
	listen := "127.0.0.1:0"
	if c.address != "" {
		listen = strings.TrimPrefix(c.address, "http://")
	}
	argv := append(append([]string{}, wrap...), binary, "server", "--data-dir", c.data(), "--listen", listen, "--address-file", file, "--log-level", "warn")
	argv = append(argv, c.args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "TXMGR_FAILPOINT="+failpoint)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.mu.Lock()
	c.err.Reset()
	cmd.Stderr = &c.err
	c.cmd, c.end = cmd, make(chan struct{})
	end := c.end
	c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(end)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	defer func() {
		if c.t.Failed() { // its goroutines show what it was doing
			_ = cmd.Process.Signal(syscall.SIGQUIT)
			<-end
			c.t.Log(c.err.String())
		}
	}()
	eventually(c.t, ctx, "the coordinator's address", func() error {
		select {
		case <-end:
			c.t.Fatalf("the coordinator ended (%v):\n%s", cmd.ProcessState, c.err.String())
		default:
		}
		b, err := os.ReadFile(file)
		if err == nil && len(b) == 0 {
			err = fmt.Errorf("the address file is empty")
		}
		if err == nil {
			c.address = strings.TrimSpace(string(b))
		}
		return err
	})
	if !strings.HasPrefix(c.address, "http://") {
		c.address = "http://" + c.address
	}
}

// wait returns when the process has ended, and how.
func (c *coordinator) wait(within time.Duration) (*os.ProcessState, string) {
	c.t.Helper()
	select {
	case <-c.end:
		return c.cmd.ProcessState, c.err.String()
	case <-time.After(within):
		c.t.Fatalf("the coordinator did not end within %v", within)
		return nil, ""
	}
}

// awaitFailpointExit waits until the failpoint has killed the process.
func (c *coordinator) awaitFailpointExit(failpoint string) {
	c.t.Helper()
	state, text := c.wait(waitTimeout)
	name, _, _ := strings.Cut(failpoint, ":")
	if ws := state.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGKILL || !strings.Contains(text, "failpoint: "+name) {
		c.t.Fatalf("the failpoint %q did not fire: %v\n%s", failpoint, state, text)
	}
}

// kill ends the process as kill -9 does, if it runs.
func (c *coordinator) kill() {
	c.mu.Lock()
	cmd, end := c.cmd, c.end
	c.mu.Unlock()
	if cmd == nil || cmd.Process == nil {
		return
	}
	select {
	case <-end:
		return
	default:
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-end
}

func (c *coordinator) dial() *client.Client {
	c.t.Helper()
	m, err := client.Open(client.Config{Address: c.address, RequestTimeout: waitTimeout})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = m.Close() })
	return m
}

// eventually polls until f succeeds.
func eventually(t *testing.T, ctx context.Context, what string, f func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
