package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/internal/tailbuf"
)

// Process is a program that can be killed, suspended and restarted. The exported fields are set
// before the first start.
type Process struct {
	Name string
	Path string
	Args []string
	// Env returns additions to the environment, at each start. Nil: none.
	Env func() []string
	// OnLine receives each line of the standard output. Nil: they are dropped.
	OnLine func(string)
	// Output receives all standard error. Nil: only its end is kept.
	Output io.Writer
	// Ready returns nil when the program serves; it is repeated until [WaitTimeout] has passed.
	// Nil: Start does not wait.
	Ready func(context.Context) error
	// OnFailure is called for an unexpected exit.
	OnFailure func(format string, args ...any)

	opMu   sync.Mutex // held while the process is started, ended or suspended
	run    *running   // guarded by opMu; nil: not running
	stderr tailbuf.Buffer
	log    *os.File // nil: output is not written to a file
}

// running is one run of a process.
type running struct {
	cmd      *exec.Cmd
	expected atomic.Bool   // its exit is expected
	exited   chan struct{} // closed when it has ended and its output is read
}

// hasExited reports whether it has ended, and its output is read.
func (r *running) hasExited() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// LogTo also writes all output of the process to a file in dir.
func (p *Process) LogTo(dir string) (err error) {
	if dir == "" {
		return nil
	}
	p.log, err = os.Create(filepath.Join(dir, p.Name+".log"))
	return err
}

// Start starts the process if it does not run, and returns when it is ready.
func (p *Process) Start(ctx context.Context) error {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	return p.startLocked(ctx)
}

func (p *Process) startLocked(ctx context.Context) error {
	if p.run != nil && !p.run.hasExited() {
		return nil
	}
	run := &running{cmd: exec.Command(p.Path, p.Args...), exited: make(chan struct{})}
	if p.Env != nil {
		run.cmd.Env = append(os.Environ(), p.Env()...)
	}
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	says := []io.Writer{&p.stderr}
	if p.log != nil {
		says = append(says, p.log)
	}
	if p.Output != nil {
		says = append(says, p.Output)
	}
	run.cmd.Stderr = io.MultiWriter(says...)
	out, err := run.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.spawn(run, out); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	if p.run = run; p.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, WaitTimeout)
	defer cancel()
	return Retry(ctx, func() error {
		if run.hasExited() {
			cancel()
			return fmt.Errorf("%s ended (%v); %s", p.Name, run.cmd.ProcessState, &p.stderr)
		}
		return p.Ready(ctx)
	})
}

// spawn starts the process on a thread that lives until it has ended: the kernel ties the end of
// the process to the end of that thread.
func (p *Process) spawn(run *running, out io.Reader) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := run.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if p.OnLine != nil {
				p.OnLine(lines.Text())
			}
		}
		err = errors.Join(lines.Err(), run.cmd.Wait())
		if !run.expected.Load() {
			p.OnFailure("%s ended by itself (%v); %s", p.Name, err, &p.stderr)
		}
		close(run.exited)
	}()
	return <-started
}

// Kill kills the process as kill -9 does, and returns when it has ended.
func (p *Process) Kill() {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	p.killLocked()
}

func (p *Process) killLocked() {
	if p.run == nil {
		return
	}
	p.run.expected.Store(true)
	_ = syscall.Kill(-p.run.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.run.exited
	p.run = nil
}

// Restart kills the process, and starts it again after down.
func (p *Process) Restart(ctx context.Context, down time.Duration) error {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	p.killLocked()
	Sleep(ctx, down)
	return p.startLocked(ctx)
}
