package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// workerProcess is a worker in a process of its own.
type workerProcess struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *json.Decoder
}

func startWorker(ctx context.Context, dir, name string) (*workerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	e := &workerProcess{name: name, cmd: exec.CommandContext(ctx, self, "-worker", "-dir", filepath.Join(dir, name))}
	e.cmd.Stderr = os.Stderr
	// The process that sends the requests handles an interrupt at the terminal.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.lines = json.NewDecoder(stdout)
	return e, e.cmd.Start()
}

// call sends a request and waits for the response.
func (e *workerProcess) call(o request) (a response, err error) {
	err = json.NewEncoder(e.stdin).Encode(o)
	if err == nil {
		err = e.lines.Decode(&a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		err = fmt.Errorf("%s node: %s: %w", e.name, o.Do, err)
	}
	return a, err
}

// stop ends the worker.
func (e *workerProcess) stop() error {
	if err := errors.Join(e.stdin.Close(), e.cmd.Wait()); err != nil {
		return fmt.Errorf("%s node: %w", e.name, err)
	}
	return nil
}
