package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// apiPort is the default.
const apiPort = "7460"

// node is one server: it can be killed, halted and started again.
type node struct {
	t    *testing.T
	net  *network
	n    int
	name string
	dir  string   // its data directory
	args []string // of the server
	wrap []string // what its command is given to as arguments
	m    *client.Client

	turn sync.Mutex // held by whoever starts, ends or halts it
	run  *running   // guarded by turn; nil: down

	mu   sync.Mutex // guards said
	said bytes.Buffer
}

// running is one life of a process.
type running struct {
	cmd    *exec.Cmd
	wanted atomic.Bool   // its end is
	gone   chan struct{} // closed when it has ended
}

func (n *node) api() string { return "https://" + n.net.address(n.n) + ":" + apiPort }

// Write takes what the node says.
func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said.Len() > 4<<20 {
		n.said.Next(2 << 20)
	}
	return n.said.Write(p)
}

// text is what the node has said, the end of it.
func (n *node) text(most int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.said.Bytes()
	return string(b[max(0, len(b)-most):])
}

// command is what the node is started as.
func (n *node) command() []string {
	argv := append(n.net.inside(n.n), n.wrap...)
	return append(append(argv, program, "server"), n.args...)
}

// start starts it, if it is down. When it serves is another matter.
func (n *node) start(env ...string) error {
	n.turn.Lock()
	defer n.turn.Unlock()
	return n.startLocked(env...)
}

func (n *node) startLocked(env ...string) error {
	if n.run != nil {
		select {
		case <-n.run.gone:
		default:
			return nil
		}
	}
	argv := n.command()
	run := &running{cmd: exec.Command(argv[0], argv[1:]...), gone: make(chan struct{})}
	run.cmd.Env = append(os.Environ(), env...)
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	run.cmd.Stdout, run.cmd.Stderr = n, n
	fmt.Fprintf(n, "---- %s is started at %s\n", n.name, time.Now().Format(time.StampMilli))
	// The kernel ties the end of the process to the end of the thread that started it.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := run.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = run.cmd.Wait()
		fmt.Fprintf(n, "---- %s has ended at %s: %v\n", n.name, time.Now().Format(time.StampMilli), err)
		if !run.wanted.Load() {
			n.t.Errorf("%s ended by itself (%v); it said:\n%s", n.name, err, n.text(4<<10))
		}
		close(run.gone)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.run = run
	return nil
}

// mayEnd says that the end of the running process is no failure.
func (n *node) mayEnd() {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.run != nil {
		n.run.wanted.Store(true)
	}
}

// kill ends it as kill -9 does, and returns when it is gone.
func (n *node) kill() {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.run == nil {
		return
	}
	n.run.wanted.Store(true)
	_ = syscall.Kill(-n.run.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-n.run.gone
	n.run = nil
}

// halt stops it for some time, as a machine that hangs. Before the last second of that
// meanwhile is called, if there is one.
func (n *node) halt(ctx context.Context, d time.Duration, meanwhile func()) error {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.run == nil {
		return errors.New(n.name + " is down")
	}
	group := -n.run.cmd.Process.Pid
	if err := syscall.Kill(group, syscall.SIGSTOP); err != nil {
		return err
	}
	if meanwhile != nil {
		pause(ctx, d-time.Second)
		meanwhile()
		d = min(d, time.Second)
	}
	pause(ctx, d)
	return syscall.Kill(group, syscall.SIGCONT)
}

// stop asks it to end in good order.
func (n *node) stop() error {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.run == nil {
		return nil
	}
	run := n.run
	run.wanted.Store(true)
	if err := syscall.Kill(run.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-run.gone:
		n.run = nil
	case <-time.After(patience):
		return fmt.Errorf("%s did not end within %v after SIGTERM", n.name, patience)
	}
	if !run.cmd.ProcessState.Success() {
		return fmt.Errorf("%s ended with %v after SIGTERM; it said:\n%s", n.name, run.cmd.ProcessState, n.text(4<<10))
	}
	return nil
}

// ended waits for the process to end by itself, and says how.
func (n *node) ended(within time.Duration) (*os.ProcessState, error) {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.run == nil {
		return nil, errors.New(n.name + " is down")
	}
	select {
	case <-n.run.gone:
		state := n.run.cmd.ProcessState
		n.run = nil
		return state, nil
	case <-time.After(within):
		return nil, fmt.Errorf("%s did not end within %v", n.name, within)
	}
}

// pid is the process's, 0 when it is down.
func (n *node) pid() int {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.run == nil {
		return 0
	}
	return n.run.cmd.Process.Pid
}

// up reports whether it was started and not ended.
func (n *node) up() bool { return n.pid() != 0 }

// status asks the node itself.
func (n *node) status(ctx context.Context) (txn.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return n.m.Status(ctx)
}

// keep writes what it has said to a file.
func (n *node) keep(dir string) {
	if dir == "" {
		return
	}
	name := strings.ReplaceAll(n.t.Name(), "/", "_") + "-" + n.name + ".log"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(n.text(8<<20)), 0o644); err != nil {
		n.t.Log(err)
	}
}

var _ io.Writer = (*node)(nil)
