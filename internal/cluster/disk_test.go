package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/txmgr/txmgr/txn"
)

// loadedCluster is a cluster under load, with what was acknowledged.
type loadedCluster struct {
	*testCluster
	p    *commitLoop
	stop func() // ends the load
}

const loadClients = 4 // clients of a loaded cluster, as one

// load begins to make commits, with a client with that timeout.
func (b *testCluster) load(timeout time.Duration) *loadedCluster {
	ctx, cancel := context.WithCancel(b.t.Context())
	p := &commitLoop{c: b.dial(timeout)}
	var busy sync.WaitGroup
	for range loadClients {
		busy.Go(func() { p.run(ctx) })
	}
	stop := sync.OnceFunc(func() {
		cancel()
		busy.Wait()
	})
	b.t.Cleanup(stop)
	l := &loadedCluster{b, p, stop}
	l.awaitCommits()
	return l
}

// awaitCommits waits for a hundred commits that begin after now.
func (l *loadedCluster) awaitCommits() {
	l.t.Helper()
	from := time.Now()
	l.eventually(waitTimeout, "commits go on", func(context.Context) error {
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		n := 0
		for _, a := range l.p.acks {
			if a.began.After(from) {
				n++
			}
		}
		if n < 100 {
			return fmt.Errorf("%d commits since", n)
		}
		return nil
	})
}

// check ends the load and compares what was acknowledged with the state of every node.
func (l *loadedCluster) check() {
	l.t.Helper()
	l.awaitCommits()
	l.stop()
	l.awaitHealthy()
	l.eventually(waitTimeout, "all have the same", func(ctx context.Context) error { return l.checkApplied(ctx) })
	for _, err := range l.p.errs {
		l.t.Errorf("a client with patience was told: %v", err)
	}
	l.p.checkAcked(l.testCluster, 200)
	l.t.Logf("%d commits were acknowledged, and are there", len(l.p.acks))
}

// mountSmallDisk mounts a small disk at a node's data directory.
func (b *testCluster) mountSmallDisk(n *node, most string) {
	b.t.Helper()
	if err := syscall.Mount("tmpfs", n.dir, "tmpfs", 0, "size="+most); err != nil {
		b.t.Fatalf("mounting a small disk (needs root): %v", err)
	}
	b.unmounted(n)
}

// unmounted unmounts the disk of a node's data directory when the test ends.
func (b *testCluster) unmounted(n *node) {
	b.t.Cleanup(func() {
		n.Kill()
		if err := syscall.Unmount(n.dir, 0); err != nil {
			b.t.Errorf("unmounting %s: %v", n.dir, err)
		}
	})
}

// TestDiskFull: the disk of one node fills up, of a follower and then of the leader. The node ends
// and logs the reason, the others continue, and it restarts when there is space again. Then the
// disks of two fill up, and nothing is acknowledged until they are back.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	for _, n := range b.nodes {
		b.mountSmallDisk(n, "64m")
	}
	b.form()
	l := b.load(waitTimeout)
	for _, who := range []string{"a follower", "the leader", "a follower and the leader"} {
		leader, followers := b.leader()
		var victims []*node
		if strings.Contains(who, "follower") {
			victims = append(victims, followers[0])
		}
		if strings.Contains(who, "leader") {
			victims = append(victims, leader)
		}
		for _, n := range victims {
			n.ExpectExit()
		}
		for _, n := range victims {
			b.must(fillDisk(n.ballastPath()))
		}
		for _, n := range victims { // as long as one of two runs, the load continues and fills its log
			b.awaitDiskFullExit(n)
		}
		if len(victims) == 1 {
			l.awaitCommits()
		}
		for _, n := range victims {
			b.must(os.Remove(n.ballastPath()))
			b.must(n.Start(b.t.Context()))
		}
		b.awaitHealthy()
		l.awaitCommits()
	}
	l.check()
}

// ballastPath is a file that fills a node's disk.
func (n *node) ballastPath() string { return filepath.Join(n.dir, "ballast") }

// awaitDiskFullExit waits until a node has ended because its disk is full.
func (b *testCluster) awaitDiskFullExit(n *node) {
	b.t.Helper()
	state, err := n.WaitExit(waitTimeout)
	b.must(err)
	if state.Success() || !strings.Contains(n.outputTail(16<<10), "no space left on device") {
		b.t.Errorf("%s, whose disk is full, ended with %v and said:\n%s", n.Name, state, n.outputTail(4<<10))
	}
}

// fillDisk writes a file until the disk is full.
func fillDisk(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<16)
	for len(block) > 0 {
		if _, err = f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	_ = f.Close()
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		return fmt.Errorf("filling the disk: %w", err)
	}
	return nil
}

// TestDiskErrors: from one moment on every call of a kind fails at the disk of the leader: it
// cannot sync, or not write. It ends by itself and acknowledges nothing more, the others continue,
// and nothing is lost.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	b.form()
	l := b.load(waitTimeout)
	for _, call := range []string{"fdatasync", "pwrite64"} {
		leader, _ := b.leader()
		leader.ExpectExit()
		trace := filepath.Join(b.dir, call)
		cmd := exec.Command("strace", "-f", "-o", trace, "-e", "trace="+call, "-e", "inject="+call+":error=EIO", "-p", fmt.Sprint(leader.PID()))
		b.must(cmd.Start())
		state, err := leader.WaitExit(waitTimeout)
		_ = cmd.Wait() // it ends with the node
		b.must(err)
		if state.Success() || !strings.Contains(leader.outputTail(16<<10), "log store has failed") {
			t.Errorf("%s: %s ended with %v and said:\n%s", call, leader.Name, state, leader.outputTail(4<<10))
		}
		if text, _ := os.ReadFile(trace); !bytes.Contains(text, []byte("INJECTED")) {
			t.Fatalf("%s: no fault was injected:\n%s", call, text)
		}
		l.awaitCommits()
		b.must(leader.Start(b.t.Context()))
		b.awaitHealthy()
	}
	l.check()
}

// mountDisk mounts a file system of its own at a node's data directory, whose power can be cut.
func (b *testCluster) mountDisk(n *node) {
	b.t.Helper()
	image := n.dir + ".img"
	b.must(os.WriteFile(image, nil, 0o600))
	b.must(os.Truncate(image, 256<<20))
	b.runProgram("mkfs.ext4", "-q", "-F", image)
	b.runProgram("mount", "-o", "loop", image, n.dir)
	b.unmounted(n)
}

// cutPower stops the disks of nodes at once, with all that was not synced, and then
// the nodes; it mounts the disks again as after the next boot.
func (b *testCluster) cutPower(all ...*node) {
	b.t.Helper()
	const shutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
	for _, n := range all {
		n.ExpectExit()
		dir, err := os.Open(n.dir)
		b.must(err)
		how := uint32(2) // without flushing its journal
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), shutdown, uintptr(unsafe.Pointer(&how)))
		_ = dir.Close()
		if errno != 0 {
			b.t.Fatalf("shutting %s down: %v", n.dir, errno)
		}
	}
	for _, n := range all {
		n.Kill()
	}
	for _, n := range all {
		b.must(syscall.Unmount(n.dir, 0))
		b.runProgram("mount", "-o", "loop", n.dir+".img", n.dir)
	}
}

// TestPowerCut: the power of one node fails, and then that of all at once. What was
// acknowledged is on the disks.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	for _, n := range b.nodes {
		b.mountDisk(n)
	}
	b.form()
	l := b.load(waitTimeout)
	leader, _ := b.leader()
	b.cutPower(leader)
	l.awaitCommits()
	b.must(leader.Start(b.t.Context()))
	b.awaitHealthy()
	for range 2 {
		l.awaitCommits()
		b.cutPower(b.nodes...)
		for _, n := range b.nodes {
			b.must(n.Start(b.t.Context()))
		}
		b.awaitHealthy()
	}
	l.check()
}

// TestFlippedBits: bits of a stopped node's log are flipped. The node does not start, names the
// file, and does not change it; the others continue. With an empty directory it joins again at the
// same address, as a new node.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	b.form()
	const name = "a name to be found again"
	for range 50 {
		_, err := b.m.Begin(t.Context(), txn.Options{Name: name, Timeout: time.Hour})
		b.must(err)
	}
	b.awaitHealthy()
	_, followers := b.leader()
	victim := followers[0]
	old := b.id(victim)
	b.must(victim.Stop(waitTimeout))
	file := filepath.Join(victim.dir, "log.db.segments", "0000000000000001.log")
	text, err := os.ReadFile(file)
	b.must(err)
	damaged := bytes.ReplaceAll(text, []byte("to be found"), []byte("to be Found")) // one bit each
	if bytes.Equal(damaged, text) {
		t.Fatal("the log does not hold the name")
	}
	b.must(os.WriteFile(file, damaged, 0o600))
	b.must(victim.Start(b.t.Context()))
	victim.ExpectExit()
	state, err := victim.WaitExit(waitTimeout)
	b.must(err)
	if said := victim.outputTail(4 << 10); state.Success() || !strings.Contains(said, "corrupt") || !strings.Contains(said, file) {
		t.Errorf("the damaged log was answered by %v and:\n%s", state, said)
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, damaged) {
		t.Error("the refusal changed the file")
	}
	l := b.load(waitTimeout)
	b.must(b.m.Admin().Remove(t.Context(), old, "the test", "its disk has failed"))
	b.must(os.RemoveAll(victim.dir))
	b.must(victim.Start(b.t.Context()))
	b.awaitHealthy()
	if now := b.id(victim); now == old {
		t.Errorf("a node with an empty directory has its old id, %s", now)
	}
	l.check()
}

// mountsBelow lists the mounts at or below a directory, the deepest first.
func mountsBelow(dir string) (found []string) {
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && (fields[1] == dir || strings.HasPrefix(fields[1], dir+"/")) {
			found = append([]string{fields[1]}, found...)
		}
	}
	return found
}
