package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Worker is this program in a process of its own, which answers requests of type Q with responses
// of type A. Stop it with [Worker.Stop].
type Worker[Q fmt.Stringer, A any] struct {
	Name      string
	cmd       *exec.Cmd
	requests  io.WriteCloser
	responses *json.Decoder
}

// answer is a line that a worker writes.
type answer[A any] struct {
	Error    string `json:"error,omitempty"`
	Response A      `json:"response"`
}

// StartWorker starts this program with the arguments, with which it has to call [Serve]. The worker
// is killed when ctx ends.
func StartWorker[Q fmt.Stringer, A any](ctx context.Context, name string, args ...string) (*Worker[Q, A], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &Worker[Q, A]{Name: name, cmd: exec.CommandContext(ctx, self, args...)}
	w.cmd.Stderr = os.Stderr
	// The process that sends the requests handles an interrupt at the terminal.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if w.requests, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.responses = json.NewDecoder(stdout)
	return w, w.cmd.Start()
}

// Call sends a request and waits for the response.
func (w *Worker[Q, A]) Call(q Q) (A, error) {
	var a answer[A]
	err := json.NewEncoder(w.requests).Encode(q)
	if err == nil {
		err = w.responses.Decode(&a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		err = fmt.Errorf("node %s: %v: %w", w.Name, q, err)
	}
	return a.Response, err
}

// CPU is the processor time of the worker so far.
func (w *Worker[Q, A]) CPU() (time.Duration, error) { return CPUOf(w.cmd.Process.Pid) }

// Stop ends the requests, and waits until the worker has ended.
func (w *Worker[Q, A]) Stop() error {
	if err := errors.Join(w.requests.Close(), w.cmd.Wait()); err != nil {
		return fmt.Errorf("node %s: %w", w.Name, err)
	}
	return nil
}

// Serve reads requests from r, and writes the responses of execute to w, until there are no more
// requests. An error of execute is sent to the caller.
func Serve[Q, A any](r io.Reader, w io.Writer, execute func(context.Context, Q) (A, error)) error {
	in, out := json.NewDecoder(bufio.NewReader(r)), json.NewEncoder(w)
	for {
		var q Q
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer[A]
		var err error
		if a.Response, err = execute(context.Background(), q); err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}
