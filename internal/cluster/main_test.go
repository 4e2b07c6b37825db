package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/testdb"
)

// What all tests share.
var (
	program     string // txmgr with failpoints
	scratch     string // a directory for everything
	pgServer    *testdb.Postgres
	mariaServer *testdb.MariaDB
)

// programs are the programs that the tests call, with the Debian packages that contain them.
var programs = map[string]string{
	"ip": "iproute2", "iptables": "iptables", "nsenter": "util-linux", "prlimit": "util-linux",
	"mount": "mount", "ping": "iputils-ping", "mkfs.ext4": "e2fsprogs", "strace": "strace",
}

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == roleSlow {
		os.Exit(runSlowLine())
	}
	// Most tests wait for elections most of the time.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("4") // the value is a number
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	for name, in := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return 1, fmt.Errorf("the tests of the cluster need %s: make deps, or apt-get install %s (and /usr/sbin in PATH): %w", name, in, err)
		}
	}
	if os.Geteuid() != 0 {
		return 1, errors.New("the tests of the cluster make network namespaces and mount disks: run them as root")
	}
	removeLeftovers()
	if scratch, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", scratchPrefix, os.Getpid())); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	var starting sync.WaitGroup
	var errs [3]error
	starting.Go(func() { errs[0] = build() })
	starting.Go(func() {
		pgServer, errs[1] = testdb.StartPostgres(context.Background(), testdb.PostgresConfig{NoFsync: true})
	})
	starting.Go(func() {
		mariaServer, errs[2] = testdb.StartMariaDB(context.Background(), testdb.MariaDBConfig{NoFsync: true})
	})
	starting.Wait()
	if pgServer != nil {
		defer func() { err = errors.Join(err, pgServer.Close()) }()
	}
	if mariaServer != nil {
		defer func() { err = errors.Join(err, mariaServer.Close()) }()
	}
	if err := errors.Join(errs[:]...); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func build() error {
	program = filepath.Join(scratch, "txmgr")
	cmd := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "github.com/txmgr/txmgr/cmd/txmgr")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building txmgr: %w\n%s", err, out)
	}
	return nil
}

// scratchPrefix is the beginning of the directory names of this package's runs; the process id
// follows.
const scratchPrefix = "txmgr-cluster-"

// alive reports whether a process of that id runs.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// removeLeftovers removes what killed runs left behind: mounts, directories, namespaces and links.
// It ignores errors.
func removeLeftovers() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"[0-9]*-*")) // the pattern is well-formed
	for _, dir := range dirs {
		var pid int
		if n, _ := fmt.Sscanf(filepath.Base(dir), scratchPrefix+"%d-", &pid); n != 1 || alive(pid) {
			continue
		}
		for _, at := range mountsBelow(dir) {
			_ = syscall.Unmount(at, 0)
		}
		_ = os.RemoveAll(dir)
	}
	removeNetworks()
}

// setting reads a number or a duration from the environment.
func setting[T any](t *testing.T, name string, parse func(string) (T, error), def T) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	v, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

func chaosTime(t *testing.T) time.Duration {
	return setting(t, "TXMGR_CLUSTER_TIME", time.ParseDuration, 75*time.Second)
}

func killCount(t *testing.T) int { return setting(t, "TXMGR_CLUSTER_KILLS", strconv.Atoi, 20) }
