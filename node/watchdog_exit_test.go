package node

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn/machine"
)

// TestStacksOutliveTheProcess: a node whose state is locked ends its process at once. What its goroutines did is on the disk
// by then, also when they are many.
func TestStacksOutliveTheProcess(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("TXMGR_TEST_STALL"); dir != "" {
		stallForEver(t, dir)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), "TXMGR_TEST_STALL="+dir)
	said, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 1 || !strings.Contains(string(said), "the state is locked") {
		t.Fatalf("the process ended with %v and said\n%s", err, said)
	}
	stacks, err := os.ReadFile(filepath.Join(dir, "stall.txt"))
	if err != nil {
		t.Errorf("the stacks are lost: %v", err)
	} else if n := strings.Count(string(stacks), "\ngoroutine "); n < parked {
		t.Errorf("the stacks of %d goroutines of more than %d are there", n, parked)
	}
}

// parked is how many goroutines the process has that ends.
const parked = 5000

// stallForEver opens a node, locks its state, and has it asked for something.
func stallForEver(t *testing.T, dir string) {
	n, err := tryOpen(t, dir, func(c *Config) { c.OnFailure, c.Logger = nil, slog.New(slog.NewTextHandler(os.Stderr, nil)) })
	if err != nil {
		t.Fatal(err)
	}
	for range parked {
		go func() { select {} }()
	}
	entered := make(chan struct{})
	go n.fsm.View(func(*machine.Machine) { close(entered); select {} })
	<-entered
	beginSoon(t, n)
	select {}
}
