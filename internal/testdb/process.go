package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is a running server: the process that was started and its children.
type process struct {
	cmd  *exec.Cmd
	log  *tail
	gone chan struct{} // closed when the last of its processes is gone
}

// spawn starts a server under an account. The goroutine that starts it stays on
// its thread until the server is gone: the kernel ties the end of the children
// to the end of that thread, not of the whole program.
func spawn(path, dir string, a *account, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), log: &tail{}, gone: make(chan struct{})}
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
		_ = p.cmd.Wait() // how it ended is in the log; it returns at the end of file, when the last child is gone
		close(p.gone)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// end sends a signal and waits until the server is gone. When ctx ends first the
// server is killed, and only the operating system can make it wait longer.
func (p *process) end(ctx context.Context, sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.cmd.Process.Pid, err)
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may be gone by now, which is as good
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d was killed, but a child of it still runs after %v: %s", p.cmd.Process.Pid, patience, p.log)
	}
}

// run runs a program to its end and gives what it printed as part of the error.
func run(ctx context.Context, path, dir string, a *account, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.SysProcAttr = dir, a.sysProcAttr()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, out)
	}
	return nil
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte // at most tailSize bytes
}

const tailSize = 4 << 10

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - tailSize; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

// String gives the last lines of the log.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "its log ends:\n" + string(t.text)
}
