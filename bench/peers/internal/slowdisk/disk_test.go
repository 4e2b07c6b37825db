package slowdisk_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/txmgr/txmgr/bench/peers/internal/slowdisk"
)

// What cannot be removed again is installed in a process of its own.
var part = flag.String("slowdisk.part", "", "internal: what this process does, in the directory of the first argument")

const (
	delay   = 20 * time.Millisecond
	syncs   = 10
	threads = 8
)

func TestMain(m *testing.M) {
	flag.Parse()
	switch *part {
	case "":
		os.Exit(m.Run())
	case "parent":
		exit(parent(flag.Arg(0)))
	case "child":
		exit(synchronise(flag.Arg(0)))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func TestSynchronisationsTakeLonger(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-slowdisk.part=parent", t.TempDir()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// parent measures synchronisations of its own and of a child, with a delay and without.
func parent(dir string) error {
	disk, err := slowdisk.Start()
	if err != nil {
		return err
	}
	self := func() error { return synchronise(dir) }
	child := func() error {
		out, err := exec.Command(os.Args[0], "-slowdisk.part=child", dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
		}
		return nil
	}
	many := func() error { return inParallel(dir) }
	for _, c := range []struct {
		name  string
		do    func() error
		calls int64
		least time.Duration
		most  time.Duration // zero: no bound
	}{
		{"this process", self, syncs, syncs * delay, 0},
		{"a child", child, syncs, syncs * delay, 0},
		{"threads side by side", many, threads, delay, threads * delay},
	} {
		disk.SetDelay(0)
		calls := disk.Calls()
		without, err := timed(c.do)
		if err != nil {
			return err
		}
		if got := disk.Calls() - calls; got != c.calls {
			return fmt.Errorf("%s: %d calls were seen, want %d", c.name, got, c.calls)
		}
		disk.SetDelay(delay)
		with, err := timed(c.do)
		if err != nil {
			return err
		}
		if with < c.least || c.most > 0 && with >= c.most {
			return fmt.Errorf("%s: %v with a delay, %v without; want %v or more, below %v", c.name, with, without, c.least, c.most)
		}
	}
	if disk.CPU() <= 0 {
		return fmt.Errorf("the delays took the processor %v", disk.CPU())
	}
	return nil
}

func timed(do func() error) (time.Duration, error) {
	began := time.Now()
	err := do()
	return time.Since(began), err
}

// synchronise calls both system calls in turn.
func synchronise(dir string) error {
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range syncs {
		if _, err := f.WriteAt([]byte("page"), int64(i)); err != nil {
			return err
		}
		call := unix.Fdatasync
		if i%2 == 1 {
			call = unix.Fsync
		}
		if err := call(int(f.Fd())); err != nil {
			return err
		}
	}
	return nil
}

func inParallel(dir string) error {
	f, err := os.Create(filepath.Join(dir, "shared"))
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	var wg sync.WaitGroup
	errs := make(chan error, threads)
	for range threads {
		wg.Go(func() { errs <- unix.Fdatasync(fd) })
	}
	wg.Wait()
	for range threads {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}
