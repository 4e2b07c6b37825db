package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/txmgr/txmgr/internal/testdb"
)

func cmdPostgres(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	config := testdb.PostgresConfig{NoFsync: true, Settings: map[string]string{}}
	var names []string
	for _, arg := range args {
		if key, value, setting := strings.Cut(arg, "="); setting {
			config.Settings[key] = value
		} else {
			names = append(names, arg)
		}
	}
	p, err := testdb.StartPostgres(ctx, config)
	ts.Check(err)
	ts.Defer(func() { ts.Check(p.Close()) })
	for _, name := range names {
		ts.Check(p.CreateDatabase(ctx, name))
		ts.Setenv(name, p.DSN(name))
		ts.Check(os.WriteFile(ts.MkAbs(name+".dsn"), []byte(p.DSN(name)), 0o600))
	}
}

// shareMariaDB returns the MariaDB that all scripts share. The first script that needs it starts
// it, and it ends with the test: creating one takes seconds.
func shareMariaDB(t *testing.T) func() (*testdb.MariaDB, error) {
	var running atomic.Pointer[testdb.MariaDB]
	t.Cleanup(func() {
		if m := running.Load(); m != nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return sync.OnceValues(func() (*testdb.MariaDB, error) {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		m, err := testdb.StartMariaDB(ctx, testdb.MariaDBConfig{NoFsync: true})
		if err == nil {
			running.Store(m)
		}
		return m, err
	})
}

func cmdMariaDB(shared func() (*testdb.MariaDB, error)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, names []string) {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		m, err := shared()
		ts.Check(err)
		script := strings.NewReplacer("-", "_", ".", "_").Replace(ts.Name())
		for _, name := range names {
			database := script + "_" + name
			ts.Check(m.CreateDatabase(ctx, database))
			ts.Setenv(name, database)
			ts.Check(os.WriteFile(ts.MkAbs(name+".dsn"), []byte(m.DSN(database)), 0o600))
		}
		ts.Setenv("MYSQL_HOST", "127.0.0.1")
		ts.Setenv("MYSQL_TCP_PORT", fmt.Sprint(m.Port()))
		ts.Setenv("HOME", ts.Getenv("WORK")) // no option file of this machine
	}
}

// buildMailer returns the path of examples/mailer, which the first script that needs it builds.
func buildMailer(t *testing.T) func() (string, error) {
	program := filepath.Join(t.TempDir(), "mailer")
	return sync.OnceValues(func() (string, error) {
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../examples/mailer").CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the mailer: %w\n%s", err, out)
		}
		return program, nil
	})
}

func cmdMailer(build func() (string, error)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		program, err := build()
		ts.Check(err)
		startMailer(ts, program, args)
	}
}

func startMailer(ts *testscript.TestScript, program string, args []string) {
	cmd := exec.Command(program, append([]string{"-listen", "127.0.0.1:0", "-data", ts.MkAbs("mailer")}, args...)...)
	log := &lockedBuffer{}
	cmd.Stderr, cmd.Dir = log, ts.Getenv("WORK")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		ts.Logf("[mailer]\n%s", log)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "mailer: listening on ")
	if err != nil || !ok {
		ts.Fatalf("the mailer said %q: %v\n%s", line, err, log)
	}
	ts.Setenv("MAILER_URL", url)
}

func cmdServerLog(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: serverlog FILE")
	}
	s := ts.Value(serverKey{}).(*testServer)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(s.out.String()), 0o600))
}
