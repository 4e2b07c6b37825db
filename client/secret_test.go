package client

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// blockedLog completes no line before it is released.
type blockedLog struct {
	slog.Handler
	reached, release chan struct{}
}

func (s *blockedLog) Handle(context.Context, slog.Record) error {
	s.reached <- struct{}{}
	<-s.release
	return nil
}

// TestStuckLogHoldsUpNoOtherCall: a call that logs a warning about the token file waits for
// the program's log, if that blocks; all other calls continue.
func TestStuckLogHoldsUpNoOtherCall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("tok_first"), 0o600); err != nil {
		t.Fatal(err)
	}
	stuck := &blockedLog{slog.DiscardHandler, make(chan struct{}), make(chan struct{})}
	s, err := newSecret(Config{TokenFile: file, Log: slog.New(logsAll{stuck})})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil { // empty, which causes a warning
		t.Fatal(err)
	}
	warned, other := make(chan string, 1), make(chan string, 1)
	go func() { warned <- s.get() }()
	<-stuck.reached
	go func() { other <- s.get() }()
	select {
	case got := <-other:
		if got != "tok_first" {
			t.Errorf("the other call shows %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the other call waits for the log")
	}
	close(stuck.release)
	if got := <-warned; got != "tok_first" {
		t.Errorf("the call that warned shows %q", got)
	}
}

// logsAll is a handler for which every level is enabled.
type logsAll struct{ slog.Handler }

func (logsAll) Enabled(context.Context, slog.Level) bool { return true }
