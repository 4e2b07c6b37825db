package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// MayEnd says that the end of the running process is no failure.
func (p *Process) MayEnd() {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.run != nil {
		p.run.wanted.Store(true)
	}
}

// Ended waits for the process to end by itself, and says how.
func (p *Process) Ended(within time.Duration) (*os.ProcessState, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.run == nil {
		return nil, errors.New(p.Name + " is down")
	}
	select {
	case <-p.run.gone:
		state := p.run.cmd.ProcessState
		p.run = nil
		return state, nil
	case <-time.After(within):
		return nil, fmt.Errorf("%s did not end within %v", p.Name, within)
	}
}

// Halt stops it for some time, as a machine that hangs. Before the last second of that
// meanwhile is called, if there is one.
func (p *Process) Halt(ctx context.Context, d time.Duration, meanwhile func()) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.run == nil {
		return errors.New(p.Name + " is down")
	}
	group := -p.run.cmd.Process.Pid
	if err := syscall.Kill(group, syscall.SIGSTOP); err != nil {
		return err
	}
	if meanwhile != nil {
		Pause(ctx, d-time.Second)
		meanwhile()
		d = min(d, time.Second)
	}
	Pause(ctx, d)
	return syscall.Kill(group, syscall.SIGCONT)
}

// Stop asks it to end, and kills it when it does not, which is an error with what
// its goroutines were doing.
func (p *Process) Stop(within time.Duration) error {
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
			return fmt.Errorf("%s ended with %v; %s", p.Name, run.cmd.ProcessState, &p.said)
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
	return fmt.Errorf("%s did not end within %v; %s", p.Name, within, &p.said)
}

// Dump has it say what its goroutines are doing, and end.
func (p *Process) Dump() {
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

// Said gives the end of what it wrote to standard error, as the end of an error message.
func (p *Process) Said() string { return p.said.String() }

// PID is the process id; 0 while it is down.
func (p *Process) PID() int {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.cmd.Process.Pid
}
