package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// waitTimeout bounds every single wait for a server.
const waitTimeout = 30 * time.Second

// startTries is how often a first start tries another port.
const startTries = 5

// server is what all servers share: one directory, one port, one process at a time.
type server struct {
	label   string // the name of the product
	dir     *serverDir
	account *account
	port    int
	command func() []string             // its program and arguments
	ping    func(context.Context) error // nil when it answers
	stop    os.Signal                   // shuts it down
	quit    os.Signal                   // ends it when its data is no longer needed

	mu  sync.Mutex // held while the server is being started or ended; guards run
	run *process   // nil: not running
}

// startOnFreePort is the first start. taken is the text of the log if the port is in use.
func (s *server) startOnFreePort(ctx context.Context, taken string) (err error) {
	for try := 1; ; try++ {
		if s.port, err = freePort(); err != nil {
			return err
		}
		err = s.Start(ctx)
		if err == nil || try == startTries || !strings.Contains(err.Error(), taken) {
			return err
		}
	}
}

// Start starts a server that does not run, on its data and its port, and waits until it answers. A
// running server is unchanged.
func (s *server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return nil
	}
	command := s.command()
	run, err := spawn(command[0], s.dir.path, s.account, command[1:]...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := s.ready(ctx, run); err != nil {
		return errors.Join(err, run.end(ctx, syscall.SIGKILL))
	}
	s.run = run
	return nil
}

// ready waits until the server answers.
func (s *server) ready(ctx context.Context, run *process) error {
	err := retry(ctx, run.exited, func() error { return s.ping(ctx) })
	switch {
	case errors.Is(err, errExited):
		return fmt.Errorf("%s did not start on port %d; %s", s.label, s.port, run.log)
	case err != nil:
		return fmt.Errorf("%s does not answer on port %d: %w; %s", s.label, s.port, err, run.log)
	}
	return nil
}

var errExited = errors.New("the server has ended")

// retry repeats try until it succeeds, ctx ends, or the server has ended.
func retry(ctx context.Context, gone <-chan struct{}, try func() error) error {
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return errors.Join(errExited, err)
		case <-ctx.Done():
			return err
		case <-ticks.C:
		}
	}
}

// Kill kills the server as a crash does (kill -9) and waits until all its processes have ended, so
// that it can be started again.
func (s *server) Kill(ctx context.Context) error { return s.end(ctx, syscall.SIGKILL) }

// Stop shuts the server down: connections are closed, data is kept.
func (s *server) Stop(ctx context.Context) error { return s.end(ctx, s.stop) }

func (s *server) end(ctx context.Context, sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := s.run.end(ctx, sig); err != nil {
		return fmt.Errorf("end %s: %w", s.label, err)
	}
	s.run = nil
	return nil
}

// LogTail is the end of the server's log since its latest start; empty if it does not run.
func (s *server) LogTail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return ""
	}
	return s.run.log.String()
}

// Close ends the server and removes all its files. It may be repeated.
func (s *server) Close() error {
	err := s.end(context.Background(), s.quit)
	return errors.Join(err, s.dir.remove())
}

// Port is the server's TCP port on 127.0.0.1.
func (s *server) Port() int { return s.port }

// PID is the process id of the running server, 0 if it does not run.
func (s *server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return 0
	}
	return s.run.cmd.Process.Pid
}
