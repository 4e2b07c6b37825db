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

// loaded is a cluster under load, with what was acknowledged.
type loaded struct {
	*bed
	p    *beats
	stop func() // ends the load
}

const beating = 4 // clients of a loaded cluster, as one

// load begins to make commits, with a client that has that much patience.
func (b *bed) load(patience time.Duration) *loaded {
	ctx, cancel := context.WithCancel(b.t.Context())
	p := &beats{c: b.dial(patience)}
	var busy sync.WaitGroup
	for range beating {
		busy.Go(func() { p.run(ctx) })
	}
	stop := sync.OnceFunc(func() {
		cancel()
		busy.Wait()
	})
	b.t.Cleanup(stop)
	l := &loaded{b, p, stop}
	l.goesOn()
	return l
}

// goesOn waits for a hundred commits that begin after now.
func (l *loaded) goesOn() {
	l.t.Helper()
	from := time.Now()
	l.soon(patience, "commits go on", func(context.Context) error {
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

// check ends the load and holds what was acknowledged against what every node says.
func (l *loaded) check() {
	l.t.Helper()
	l.goesOn()
	l.stop()
	l.whole()
	l.soon(patience, "all have the same", func(ctx context.Context) error { return l.level(ctx) })
	for _, err := range l.p.errs {
		l.t.Errorf("a client with patience was told: %v", err)
	}
	l.p.kept(l.bed, 200)
	l.t.Logf("%d commits were acknowledged, and are there", len(l.p.acks))
}

// small mounts a small disk at a node's data directory.
func (b *bed) small(n *node, most string) {
	b.t.Helper()
	if err := syscall.Mount("tmpfs", n.dir, "tmpfs", 0, "size="+most); err != nil {
		b.t.Fatalf("mounting a small disk (needs root): %v", err)
	}
	b.unmounted(n)
}

// unmounted unmounts what is at a node's data directory when the test is over.
func (b *bed) unmounted(n *node) {
	b.t.Cleanup(func() {
		n.Kill()
		if err := syscall.Unmount(n.dir, 0); err != nil {
			b.t.Errorf("unmounting %s: %v", n.dir, err)
		}
	})
}

// TestDiskFull: the disk of one node fills up, of a follower and then of the leader.
// The node ends and says why, the others go on, and it comes back when there is room
// again. Then the disks of two fill up, and nothing is acknowledged until they are back.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, n := range b.nodes {
		b.small(n, "64m")
	}
	b.form()
	l := b.load(patience)
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
			n.MayEnd()
		}
		for _, n := range victims {
			b.must(fill(n.ballast()))
		}
		for _, n := range victims { // as long as one of two is up, the load goes on and fills its log
			b.fullEnd(n)
		}
		if len(victims) == 1 {
			l.goesOn()
		}
		for _, n := range victims {
			b.must(os.Remove(n.ballast()))
			b.must(n.Start(b.t.Context()))
		}
		b.whole()
		l.goesOn()
	}
	l.check()
}

// ballast is a file that fills a node's disk.
func (n *node) ballast() string { return filepath.Join(n.dir, "ballast") }

// fullEnd waits until a node has ended because its disk is full.
func (b *bed) fullEnd(n *node) {
	b.t.Helper()
	state, err := n.Ended(patience)
	b.must(err)
	if state.Success() || !strings.Contains(n.text(16<<10), "no space left on device") {
		b.t.Errorf("%s, whose disk is full, ended with %v and said:\n%s", n.Name, state, n.text(4<<10))
	}
}

// fill writes a file until the disk is full.
func fill(name string) error {
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

// TestDiskErrors: from one moment on every call of a kind fails at the disk of the
// leader: it cannot sync, or not write. It ends by itself and acknowledges nothing more,
// the others go on, and nothing is lost.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.form()
	l := b.load(patience)
	for _, call := range []string{"fdatasync", "pwrite64"} {
		leader, _ := b.leader()
		leader.MayEnd()
		trace := filepath.Join(b.dir, call)
		cmd := exec.Command("strace", "-f", "-o", trace, "-e", "trace="+call, "-e", "inject="+call+":error=EIO", "-p", fmt.Sprint(leader.PID()))
		b.must(cmd.Start())
		state, err := leader.Ended(patience)
		_ = cmd.Wait() // it ends with the node
		b.must(err)
		if state.Success() || !strings.Contains(leader.text(16<<10), "log store has failed") {
			t.Errorf("%s: %s ended with %v and said:\n%s", call, leader.Name, state, leader.text(4<<10))
		}
		if text, _ := os.ReadFile(trace); !bytes.Contains(text, []byte("INJECTED")) {
			t.Fatalf("%s: no fault was injected:\n%s", call, text)
		}
		l.goesOn()
		b.must(leader.Start(b.t.Context()))
		b.whole()
	}
	l.check()
}

// disk mounts a file system of its own at a node's data directory, of which the power
// can be cut.
func (b *bed) disk(n *node) {
	b.t.Helper()
	image := n.dir + ".img"
	b.must(os.WriteFile(image, nil, 0o600))
	b.must(os.Truncate(image, 256<<20))
	b.tool("mkfs.ext4", "-q", "-F", image)
	b.tool("mount", "-o", "loop", image, n.dir)
	b.unmounted(n)
}

// cutPower stops the disks of nodes at once, with all that was not synced, and then
// the nodes; it mounts the disks again as after the next boot.
func (b *bed) cutPower(all ...*node) {
	b.t.Helper()
	const shutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
	for _, n := range all {
		n.MayEnd()
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
		b.tool("mount", "-o", "loop", n.dir+".img", n.dir)
	}
}

// TestPowerCut: the power of one node fails, and then that of all at once. What was
// acknowledged is on the disks.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, n := range b.nodes {
		b.disk(n)
	}
	b.form()
	l := b.load(patience)
	leader, _ := b.leader()
	b.cutPower(leader)
	l.goesOn()
	b.must(leader.Start(b.t.Context()))
	b.whole()
	for range 2 {
		l.goesOn()
		b.cutPower(b.nodes...)
		for _, n := range b.nodes {
			b.must(n.Start(b.t.Context()))
		}
		b.whole()
	}
	l.check()
}

// TestFlippedBits: bits of a stopped node's log have flipped. It does not start, says
// which file it is, and leaves that alone; the others go on. With an empty directory
// it joins again at the same address, as a new node.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.form()
	const name = "a name to be found again"
	for range 50 {
		_, err := b.m.Begin(t.Context(), txn.Options{Name: name, Timeout: time.Hour})
		b.must(err)
	}
	b.whole()
	_, followers := b.leader()
	victim := followers[0]
	old := b.id(victim)
	b.must(victim.Stop(patience))
	file := filepath.Join(victim.dir, "log.db")
	text, err := os.ReadFile(file)
	b.must(err)
	damaged := bytes.ReplaceAll(text, []byte("to be found"), []byte("to be Found")) // one bit each, wherever bbolt keeps copies
	if bytes.Equal(damaged, text) {
		t.Fatal("the log does not hold the name")
	}
	b.must(os.WriteFile(file, damaged, 0o600))
	b.must(victim.Start(b.t.Context()))
	victim.MayEnd()
	state, err := victim.Ended(patience)
	b.must(err)
	if said := victim.text(4 << 10); state.Success() || !strings.Contains(said, "corrupt") || !strings.Contains(said, file) {
		t.Errorf("the damaged log was answered by %v and:\n%s", state, said)
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, damaged) {
		t.Error("the refusal changed the file")
	}
	l := b.load(patience)
	b.must(b.m.Remove(t.Context(), old, "the test", "its disk has failed"))
	b.must(os.RemoveAll(victim.dir))
	b.must(victim.Start(b.t.Context()))
	b.whole()
	if now := b.id(victim); now == old {
		t.Errorf("a node with an empty directory has its old id, %s", now)
	}
	l.check()
}

// mountsBelow lists what is mounted at or below a directory, the deepest first.
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
