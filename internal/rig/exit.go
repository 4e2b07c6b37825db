package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ExpectExit says that the end of the running process is no failure.
func (p *Process) ExpectExit() {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run != nil {
		p.run.expected.Store(true)
	}
}

// WaitExit waits for the process to end by itself, and says how.
func (p *Process) WaitExit(within time.Duration) (*os.ProcessState, error) {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run == nil {
		return nil, errors.New(p.Name + " is down")
	}
	select {
	case <-p.run.exited:
		state := p.run.cmd.ProcessState
		p.run = nil
		return state, nil
	case <-time.After(within):
		return nil, fmt.Errorf("%s did not end within %v", p.Name, within)
	}
}

// Suspend stops it for some time, as a machine that hangs. Before the last second of that
// meanwhile is called, if there is one.
func (p *Process) Suspend(ctx context.Context, d time.Duration, meanwhile func()) error {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run == nil {
		return errors.New(p.Name + " is down")
	}
	group := -p.run.cmd.Process.Pid
	if err := syscall.Kill(group, syscall.SIGSTOP); err != nil {
		return err
	}
	if meanwhile != nil {
		Sleep(ctx, d-time.Second)
		meanwhile()
		d = min(d, time.Second)
	}
	Sleep(ctx, d)
	return syscall.Kill(group, syscall.SIGCONT)
}

// Stop asks it to end, and kills it when it does not, which is an error with what
// its goroutines were doing.
func (p *Process) Stop(within time.Duration) error {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run == nil {
		return nil
	}
	run := p.run
	run.expected.Store(true)
	_ = run.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	p.run = nil
	select {
	case <-run.exited:
		if !run.cmd.ProcessState.Success() {
			return fmt.Errorf("%s ended with %v; %s", p.Name, run.cmd.ProcessState, &p.stderr)
		}
		return nil
	case <-time.After(within):
	}
	_ = run.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-run.exited:
	case <-time.After(within):
		_ = syscall.Kill(-run.cmd.Process.Pid, syscall.SIGKILL)
		<-run.exited
	}
	return fmt.Errorf("%s did not end within %v; %s", p.Name, within, &p.stderr)
}

// Dump has it say what its goroutines are doing, and end.
func (p *Process) Dump() {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run == nil {
		return
	}
	p.run.expected.Store(true)
	_ = p.run.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
	<-p.run.exited
	p.run = nil
}

// StderrTail gives the end of what it wrote to standard error, as the end of an error message.
func (p *Process) StderrTail() string { return p.stderr.String() }

// PID is the process id; 0 while it is down.
func (p *Process) PID() int {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.cmd.Process.Pid
}
