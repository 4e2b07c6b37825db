package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/tailbuf"
)

// coordinator is a coordinator, or one of its nodes, in a process of its own, so that it can be
// killed as a crash does. It is for one goroutine at a time.
type coordinator struct {
	program string   // this program
	name    string   // for people
	dir     string   // its data directory and its address file
	env     []string // its environment
	listen  string   // its API address, kept over restarts
	peers   []string // the flags of one of several nodes
	client  *client.Client

	run *running // nil: not running
}

// running is one process.
type running struct {
	cmd    *exec.Cmd
	log    *tailbuf.Buffer
	exited chan struct{} // closed when the process has ended and was waited for
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 15 * time.Second
	pollInterval = 5 * time.Millisecond
)

// start starts the process at its previous address, and waits until it listens. A single node is
// ready then.
func (c *coordinator) start(ctx context.Context) error {
	file := filepath.Join(c.dir, "address")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{"server", "--data-dir", filepath.Join(c.dir, "data"), "--listen", c.listen, "--address-file", file, "--log-level", "warn"}
	run, err := spawn(c.program, c.env, append(args, c.peers...)...)
	if err != nil {
		return fmt.Errorf("start the coordinator: %w", err)
	}
	c.run = run
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-run.exited:
			c.run = nil
			return fmt.Errorf("the coordinator did not start: %s", run.log)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the coordinator is not ready: %w: %s", context.Cause(ctx), run.log), c.terminate(os.Kill))
		case <-again.C:
		}
	}
}

// spawn starts this program again. The goroutine that starts it stays on its
// thread until it has ended: Linux ties the end of the child to the end of the
// thread that made it.
func spawn(program string, env []string, args ...string) (*running, error) {
	r := &running{cmd: exec.Command(program, args...), log: new(tailbuf.Buffer), exited: make(chan struct{})}
	r.cmd.Env, r.cmd.Stderr, r.cmd.SysProcAttr = env, r.log, sysProcAttr()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = r.cmd.Wait() // the log tells how it ended
		close(r.exited)
	}()
	return r, <-started
}

func (c *coordinator) address() string { return "http://" + c.listen }

// kill ends the coordinator as a crash does (kill -9).
func (c *coordinator) kill() error { return c.terminate(os.Kill) }

// stop terminates the coordinator.
func (c *coordinator) stop() error { return c.terminate(syscall.SIGTERM) }

func (c *coordinator) pid() int { return c.run.cmd.Process.Pid }

// terminate signals the process and waits until it is gone.
func (c *coordinator) terminate(sig os.Signal) error {
	if c.run == nil {
		return nil
	}
	run := c.run
	c.run = nil
	if err := run.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal the coordinator: %w", err)
	}
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-run.exited:
		return nil
	case <-limit.C:
	}
	_ = run.cmd.Process.Kill() // it may have ended already
	<-run.exited
	return fmt.Errorf("the coordinator did not stop within %v and was killed: %s", stopTimeout, run.log)
}
