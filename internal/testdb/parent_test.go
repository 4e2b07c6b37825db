package testdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
)

// parentEnv makes the test program one that starts a server below the named directory, prints its
// process id and waits to be killed.
const parentEnv = "TXMGR_TESTDB_PARENT"

func runParent(parent string) {
	p, err := StartPostgres(context.Background(), PostgresConfig{Parent: parent, NoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

func TestServerDiesWithTheProgramThatStartedIt(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	parent := reachable(t)
	cmd.Env = append(os.Environ(), parentEnv+"="+parent)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	pid, err := strconv.Atoi(line[:len(line)-1])
	check(t, err)
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil {
		t.Fatal(err)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed

	waittest.Until(t, "the server ends with its parent", func() bool {
		_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
		return errors.Is(err, os.ErrNotExist)
	})

	// Its directory is removed by the next server that is started beside it.
	left, err := filepath.Glob(filepath.Join(parent, "*", "owner"))
	check(t, err)
	if len(left) != 1 {
		t.Fatalf("left behind: %v", left)
	}
	removeAsNext := func() []string {
		d, err := newDir(parent, "postgres", &account{})
		check(t, err)
		check(t, d.remove())
		names, err := filepath.Glob(filepath.Join(parent, "*"))
		check(t, err)
		return names
	}
	if got := removeAsNext(); len(got) != 1 {
		t.Errorf("a directory was removed that is not old: %v are left", got)
	}
	old := time.Now().Add(-2 * minOrphanAge)
	check(t, os.Chtimes(left[0], old, old))
	inUse, err := newDir(parent, "postgres", &account{})
	check(t, err)
	check(t, os.Chtimes(inUse.owner.Name(), old, old))
	if got := removeAsNext(); len(got) != 1 || got[0] != inUse.path {
		t.Errorf("left are %v, want only %s, which is in use", got, inUse.path)
	}
	check(t, inUse.remove())
}
