package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ExpectExit declares that the exit of the running process is no failure.
func (p *Process) ExpectExit() {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run != nil {
		p.run.expected.Store(true)
	}
}

// WaitExit waits for the process to end by itself, and returns how.
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

// Suspend stops the process for some time, as a machine that hangs. It calls meanwhile, if not nil,
// before the last second of that time.
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

// Stop terminates the process. If it does not end in time, Stop kills it and returns an error with
// the stacks of its goroutines.
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

// Dump makes the process print the stacks of its goroutines, and end.
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

// StderrTail is the end of its standard error, as the end of an error message.
func (p *Process) StderrTail() string { return p.stderr.String() }

// PID is the process id; 0 if it does not run.
func (p *Process) PID() int {
	p.opMu.Lock()
	defer p.opMu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.cmd.Process.Pid
}
