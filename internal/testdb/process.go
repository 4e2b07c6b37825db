package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/txmgr/txmgr/internal/tailbuf"
)

// process is a running server: the process that was started and its children.
type process struct {
	cmd    *exec.Cmd
	log    *tailbuf.Buffer
	exited chan struct{} // closed when the last of its processes has ended
}

// spawn starts a server under an account. The goroutine that starts it stays on its thread until
// the server has ended: the kernel ties the end of the children to the end of that thread, not of
// the whole program.
func spawn(path, dir string, a *account, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), log: new(tailbuf.Buffer), exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.log, p.log
	p.cmd.SysProcAttr = a.sysProcAttr()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // the log tells how it ended; it returns at the end of file, when the last child has ended
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// end sends a signal and waits until the server has ended. If ctx ends first, the server is killed,
// and only the operating system can prolong the wait.
func (p *process) end(ctx context.Context, sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.cmd.Process.Pid, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended already
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitTimeout)
	defer cancel()
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d was killed, but a child of it still runs after %v: %s", p.cmd.Process.Pid, waitTimeout, p.log)
	}
}

// run runs a program and returns its output as part of the error.
func run(ctx context.Context, path, dir string, a *account, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.SysProcAttr = dir, a.sysProcAttr()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, out)
	}
	return nil
}
