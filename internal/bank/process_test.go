package bank

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

	"github.com/txmgr/txmgr/internal/tail"
)

// patience bounds every wait for something that should not take long. It is long
// because a shared disk can stall; nothing is measured by it.
const patience = 60 * time.Second

// process is a program that can be killed, halted and started again.
type process struct {
	name  string
	path  string
	args  []string
	env   func() []string
	line  func(string)                // is told each line of its standard output
	ready func(context.Context) error // nil when it is
	fail  func(format string, args ...any)

	turn sync.Mutex // held by whoever starts, ends or halts it
	run  *running   // guarded by turn; nil: down
	said tail.Buffer
	log  *os.File // nil: nobody wants it
}

// running is one life of a process.
type running struct {
	cmd    *exec.Cmd
	wanted atomic.Bool   // its end is
	gone   chan struct{} // closed when it has ended and its output is read
}

// keep writes all that the process says to a file, too.
func (p *process) keep(dir string) (err error) {
	if dir == "" {
		return nil
	}
	p.log, err = os.Create(filepath.Join(dir, p.name+".log"))
	return err
}

// start starts it, if it is down, and returns when it is ready.
func (p *process) start(ctx context.Context) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	return p.startLocked(ctx)
}

func (p *process) startLocked(ctx context.Context) error {
	if p.run != nil {
		return nil
	}
	run := &running{cmd: exec.Command(p.path, p.args...), gone: make(chan struct{})}
	if p.env != nil {
		run.cmd.Env = append(os.Environ(), p.env()...)
	}
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	run.cmd.Stderr = &p.said
	if p.log != nil {
		run.cmd.Stderr = io.MultiWriter(&p.said, p.log)
	}
	out, err := run.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.spawn(run, out); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.run = run
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return until(ctx, func() error {
		select {
		case <-run.gone:
			cancel()
			return fmt.Errorf("%s ended (%v); %s", p.name, run.cmd.ProcessState, &p.said)
		default:
		}
		return p.ready(ctx)
	})
}

// spawn starts it on a thread that is there until it has ended: to the end of that
// thread the kernel ties the end of the process.
func (p *process) spawn(run *running, out io.Reader) error {
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
			p.line(lines.Text())
		}
		err = errors.Join(lines.Err(), run.cmd.Wait())
		if !run.wanted.Load() {
			p.fail("%s ended by itself (%v); %s", p.name, err, &p.said)
		}
		close(run.gone)
	}()
	return <-started
}

// kill ends it as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.killLocked()
}

func (p *process) killLocked() {
	if p.run == nil {
		return
	}
	p.run.wanted.Store(true)
	_ = syscall.Kill(-p.run.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.run.gone
	p.run = nil
}

// restart kills it, and starts it again after some time.
func (p *process) restart(ctx context.Context, down time.Duration) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.killLocked()
	pause(ctx, down)
	return p.startLocked(ctx)
}

// halt stops it for some time, as a machine that hangs.
func (p *process) halt(ctx context.Context, d time.Duration) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.run == nil {
		return errors.New(p.name + " is down")
	}
	group := -p.run.cmd.Process.Pid
	if err := syscall.Kill(group, syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, d)
	return syscall.Kill(group, syscall.SIGCONT)
}

// stop asks it to end, and kills it when it does not, which is an error with what
// its goroutines were doing.
func (p *process) stop(within time.Duration) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.run == nil {
		return nil
	}
	run := p.run
	run.wanted.Store(true)
	_ = run.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	p.run = nil
	select {
	case <-run.gone:
		if !run.cmd.ProcessState.Success() {
			return fmt.Errorf("%s ended with %v; %s", p.name, run.cmd.ProcessState, &p.said)
		}
		return nil
	case <-time.After(within):
	}
	_ = run.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-run.gone:
	case <-time.After(within):
		_ = syscall.Kill(-run.cmd.Process.Pid, syscall.SIGKILL)
		<-run.gone
	}
	return fmt.Errorf("%s did not end within %v; %s", p.name, within, &p.said)
}

// dump has it say what its goroutines are doing, and end.
func (p *process) dump() {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.run == nil {
		return
	}
	p.run.wanted.Store(true)
	_ = p.run.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	<-p.run.gone
	p.run = nil
}
