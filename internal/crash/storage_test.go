package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// acks is what was acknowledged to clients, by transaction.
type acks struct {
	mu    sync.Mutex
	begun map[txn.ID]bool // true: also committed
}

// load begins and commits transactions from several clients until they cannot reach the coordinator
// any more, and returns what was acknowledged. Every other transaction stays open.
func (c *coordinator) load(ctx context.Context, each func(acked int)) *acks {
	a := &acks{begun: make(map[txn.ID]bool)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for w := range 8 {
		m, err := client.Open(client.Config{Address: c.address, RequestTimeout: 5 * time.Second})
		if err != nil {
			c.t.Fatal(err)
		}
		wg.Go(func() {
			defer m.Close()
			for i := w; ctx.Err() == nil; i++ {
				if err := a.one(ctx, m, i%2 == 0); err != nil {
					if !errors.Is(err, txn.ErrUnavailable) && !errors.Is(err, txn.ErrInDoubt) {
						c.t.Errorf("a client was told: %v", err)
					}
					cancel()
					return
				}
				if each != nil {
					each(a.count())
				}
			}
		})
	}
	go func() {
		select {
		case <-c.end:
			cancel() // the coordinator has ended
		case <-ctx.Done():
		}
	}()
	wg.Wait()
	return a
}

func (a *acks) one(ctx context.Context, m *client.Client, commit bool) error {
	id := rig.NewID()
	_, err := m.Begin(ctx, txn.Options{ID: id, Name: strings.Repeat("n", txn.MaxName), Timeout: time.Hour})
	if err != nil {
		return err
	}
	a.note(id, false)
	if !commit {
		return nil
	}
	if _, err := m.Commit(ctx, id, txn.CommitRequest{}); err != nil {
		return err
	}
	a.note(id, true)
	return nil
}

func (a *acks) note(id txn.ID, committed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun[id] = committed
}

func (a *acks) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.begun)
}

// check compares what was acknowledged with what the coordinator knows now.
func (c *coordinator) check(a *acks, least int) {
	c.t.Helper()
	if len(a.begun) < least {
		c.t.Fatalf("only %d transactions were acknowledged: too little to show anything", len(a.begun))
	}
	m := c.dial()
	for id, committed := range a.begun {
		info, err := m.Get(c.t.Context(), id)
		if err != nil || committed && info.State != txn.Committed || !committed && info.State != txn.Active && info.State != txn.Committed {
			c.t.Fatalf("%v was acknowledged, committed: %v; now %v, %v", id, committed, info.State, err)
		}
	}
}

// TestKilledUnderLoad: kill -9 under load.
func TestKilledUnderLoad(t *testing.T) {
	c := newCoordinator(t)
	for range 3 {
		c.start("")
		kill := sync.OnceFunc(c.kill)
		a := c.load(t.Context(), func(acked int) {
			if acked >= 2000 {
				kill()
			}
		})
		c.start("")
		c.check(a, 2000)
		c.kill()
	}
}

// TestKilledDuringSnapshot: half a snapshot is on disk. It is not used.
func TestKilledDuringSnapshot(t *testing.T) {
	const failpoint = "snapshot half written:500"
	c := newCoordinator(t, "--snapshot-bytes", "200000")
	c.start(failpoint)
	a := c.load(t.Context(), nil)
	c.awaitFailpointExit(failpoint)
	c.start("")
	c.check(a, 500)
	c.kill()
	c.start("") // from the snapshot that was made since, if there is one
	c.check(a, 500)
}

// TestFsyncErrorEndsTheProcess: from one moment on every fdatasync fails. Nothing
// is acknowledged after that, the process ends by itself, and what was
// acknowledged before is there when the disk works again.
func TestFsyncErrorEndsTheProcess(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("strace is missing: apt-get install strace")
	}
	c := newCoordinator(t)
	c.start("")
	var inject sync.Once
	trace := filepath.Join(c.dir, "trace")
	a := c.load(t.Context(), func(acked int) {
		if acked >= 1000 {
			inject.Do(func() { c.injectFault("fdatasync:error=EIO", trace) })
		}
	})
	state, text := c.wait(waitTimeout)
	if state.Success() || !strings.Contains(text, "log store has failed") {
		t.Errorf("the process ended with %v and said:\n%s", state, text)
	}
	if b, _ := os.ReadFile(trace); !bytes.Contains(b, []byte("INJECTED")) {
		t.Fatalf("no fault was injected:\n%s", b)
	}
	c.start("")
	c.check(a, 1000)
}

// injectFault attaches strace to the coordinator.
func (c *coordinator) injectFault(fault, trace string) {
	cmd := exec.Command("strace", "-f", "-o", trace, "-e", "trace=fdatasync,fsync", "-e", "inject="+fault, "-p", fmt.Sprint(c.cmd.Process.Pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	go func() { _ = cmd.Wait() }() // it ends with the coordinator
}

// TestDiskFull: the disk of the data directory fills up. The process ends by itself; when there is
// space again everything acknowledged is there.
func TestDiskFull(t *testing.T) {
	c := newCoordinator(t)
	disk := c.data()
	if err := os.MkdirAll(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatalf("mounting a small disk (needs root): %v", err)
	}
	t.Cleanup(func() {
		c.kill()
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmounting %s: %v", disk, err)
		}
	})
	c.start("")
	a := c.load(t.Context(), nil)
	state, text := c.wait(waitTimeout)
	if state.Success() || !strings.Contains(text, "no space left on device") {
		t.Errorf("the process ended with %v and said:\n%s", state, text)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=200m"); err != nil {
		t.Fatal(err)
	}
	c.start("")
	c.check(a, 500)
}

// TestFlippedBitIsNamed: a damaged data directory is refused, and the error names it.
func TestFlippedBitIsNamed(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	m := c.dial()
	for range 50 {
		if _, err := m.Begin(t.Context(), txn.Options{Name: "a name to be found again", Timeout: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	c.kill()
	file := filepath.Join(c.data(), "log.db.segments", "0000000000000001.log")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.ReplaceAll(b, []byte("to be found"), []byte("to be Found"))
	if bytes.Equal(damaged, b) {
		t.Fatal("the log does not hold the name")
	}
	if err := os.WriteFile(file, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "server", "--data-dir", c.data(), "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("corrupt")) || !bytes.Contains(out, []byte(file)) {
		t.Errorf("the damaged log was answered by %v and:\n%s", err, out)
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, damaged) {
		t.Error("the refusal changed the file")
	}
}
