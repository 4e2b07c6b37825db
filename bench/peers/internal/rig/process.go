package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Process is a server that is being measured. Stop it with [Process.Stop].
type Process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
	err  error         // set then
}

// Start runs a program in dir, where its output is appended to that of an earlier run. The program
// gets almost no environment, so that no setting of the user tunes it.
func Start(dir, program string, args ...string) (*Process, error) {
	name := filepath.Base(program)
	p := &Process{name: name, cmd: exec.Command(program, args...), log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer f.Close() // the process has its own descriptor
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, f, f
	p.cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	// The program that measures handles an interrupt at the terminal: it stops the others in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Ready repeats ask until it returns nil, the process has ended, or a minute has passed.
func (p *Process) Ready(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask(ctx)
		if err == nil && !p.exited() {
			return nil
		}
		select {
		case <-ticker.C:
		case <-p.done:
			return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(p.err, err), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", p.name, err, p.tail())
		}
	}
}

// exited reports whether the process has ended: then another process answered.
func (p *Process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill kills the process, and returns when it has ended.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// CPU is its processor time so far.
func (p *Process) CPU() (time.Duration, error) { return CPUOf(p.cmd.Process.Pid) }

// Stop terminates the process, and kills it after ten seconds.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	t := time.NewTimer(10 * time.Second)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end when asked, and was killed\n%s", p.name, p.tail())
	}
	if e := (&exec.ExitError{}); errors.As(p.err, &e) && !e.Success() && !e.Sys().(syscall.WaitStatus).Signaled() {
		return fmt.Errorf("%s: %w\n%s", p.name, p.err, p.tail())
	}
	return nil
}

// tail is the end of its output.
func (p *Process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// Ports are below those that the kernel assigns to outgoing connections: one of these could be
// taken by the time a server listens on it.
const (
	firstPort = 10_000
	lastPort  = 30_000
)

// reservedPorts are the ports that were returned before, so that no two servers get the same.
var reservedPorts struct {
	sync.Mutex
	ports map[int]bool
}

// FreePort returns a free port of the loopback interface, and never the same one again.
func FreePort() (int, error) {
	reservedPorts.Lock()
	defer reservedPorts.Unlock()
	if reservedPorts.ports == nil {
		reservedPorts.ports = make(map[int]bool)
	}
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if reservedPorts.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		reservedPorts.ports[port] = true
		return port, l.Close()
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}
