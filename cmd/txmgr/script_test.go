package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// waitTimeout bounds every wait of the scripts.
const waitTimeout = 60 * time.Second

// TestScripts runs testdata/script. Beside the commands of testscript there are:
//
//	server [FLAGS]     starts txmgr server on $WORK/data and sets TXMGR_ADDR
//	dev [FLAGS]        starts txmgr dev and sets TXMGR_ADDR; its output is in dev.out
//	crash              kills it as a crash does
//	terminate          terminates it, which must succeed
//	exits N CMD...     runs a command that must exit with N
//	set NAME           sets a variable to the output of the last command
//	postgres [SETTING=VALUE...] NAME...
//	                   starts a PostgreSQL with these databases, sets variables of
//	                   these names to their addresses and writes files NAME.dsn
//	mariadb NAME...    creates databases on the MariaDB that all scripts share, sets
//	                   variables NAME to their names there, writes files NAME.dsn,
//	                   and configures the mariadb client for the server
//	mailer [FLAGS]     starts examples/mailer and sets MAILER_URL
//	storm N TIMEOUT PARTICIPANT...
//	                   begins N transactions that expire together, TIMEOUT from now, and
//	                   waits until recovery has ended all of their branches
//	serverlog FILE     writes the log of the coordinator
//	spoil FILE         overwrites the middle of a file with random bytes
//	ports NAME...      sets variables to free ports
//	eventually CMD...  repeats a command until it succeeds
//
// A script that needs time to pass uses txmgr wait.
func TestScripts(t *testing.T) {
	// Under nohup a process and its children ignore SIGHUP, unless it subscribes to the signal
	// itself.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	shared, mailer := shareMariaDB(t), buildMailer(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Values[serverKey{}] = &testServer{}
			e.Setenv("NO_COLOR", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":     cmdServer,
			"dev":        cmdDev,
			"crash":      cmdCrash,
			"terminate":  cmdTerminate,
			"exits":      cmdExits,
			"set":        cmdSet,
			"spoil":      cmdSpoil,
			"ports":      cmdPorts,
			"eventually": cmdEventually,
			"postgres":   cmdPostgres,
			"mariadb":    cmdMariaDB(shared),
			"mailer":     cmdMailer(mailer),
			"serverlog":  cmdServerLog,
			"hangup":     cmdHangup,
			"storm":      cmdStorm,
		},
	})
}

type serverKey struct{}

// testServer is the coordinator of a script.
type testServer struct {
	cmd    *exec.Cmd // nil: none runs
	out    *lockedBuffer
	exited chan error
}

func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	start(ts, neg, append([]string{"server", "--data-dir", ts.MkAbs("data")}, args...))
}

func cmdDev(ts *testscript.TestScript, neg bool, args []string) {
	start(ts, neg, append([]string{"dev"}, args...))
	s := ts.Value(serverKey{}).(*testServer)
	ts.Check(os.WriteFile(ts.MkAbs("dev.out"), []byte(s.out.String()), 0o644))
}

// start starts a coordinator on a free port and waits until it is ready.
func start(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serverKey{}).(*testServer)
	if neg || s.cmd != nil {
		ts.Fatalf("one coordinator at a time, and it must start")
	}
	file := ts.MkAbs("address")
	ts.Check(os.RemoveAll(file))
	cmd := exec.Command("txmgr", append(args, "--listen", "127.0.0.1:0", "--address-file", file)...)
	s.cmd, s.out, s.exited = cmd, &lockedBuffer{}, make(chan error, 1)
	cmd.Stdout, cmd.Stderr, cmd.Dir = s.out, s.out, ts.Getenv("WORK")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + ts.Getenv("TMPDIR"), "NO_COLOR=1"}
	ts.Check(cmd.Start())
	go func() { s.exited <- cmd.Wait() }()
	ts.Defer(func() {
		if s.cmd == cmd {
			end(ts, s, os.Kill)
		}
	})
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	limit := time.After(waitTimeout)
	for {
		if data, err := os.ReadFile(file); err == nil {
			ts.Setenv("TXMGR_ADDR", strings.TrimSpace(string(data)))
			return
		}
		select {
		case err := <-s.exited:
			s.cmd = nil
			ts.Fatalf("%v did not start: %v\n%s", args, err, s.out)
		case <-limit:
			ts.Fatalf("%v is not ready after %v:\n%s", args, waitTimeout, s.out)
		case <-again.C:
		}
	}
}

// end signals the coordinator and waits for it.
func end(ts *testscript.TestScript, s *testServer, sig os.Signal) error {
	if s.cmd == nil {
		ts.Fatalf("no coordinator runs")
	}
	cmd := s.cmd
	s.cmd = nil
	ts.Check(cmd.Process.Signal(sig))
	select {
	case err := <-s.exited:
		ts.Logf("[coordinator]\n%s", s.out)
		return err
	case <-time.After(waitTimeout):
		_ = cmd.Process.Kill()
		ts.Fatalf("the coordinator did not end within %v:\n%s", waitTimeout, s.out)
		return nil
	}
}

func cmdCrash(ts *testscript.TestScript, _ bool, _ []string) {
	_ = end(ts, ts.Value(serverKey{}).(*testServer), os.Kill)
}

func cmdTerminate(ts *testscript.TestScript, _ bool, args []string) {
	sig := syscall.SIGTERM
	if len(args) == 1 && args[0] == "HUP" {
		sig = syscall.SIGHUP
	}
	if err := end(ts, ts.Value(serverKey{}).(*testServer), sig); err != nil {
		ts.Fatalf("after %v: %v", sig, err)
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N CMD...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func cmdSet(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: set NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func cmdSpoil(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	copy(data[len(data)/4:], bytes.Repeat([]byte{0xa5}, len(data)/2))
	ts.Check(os.WriteFile(name, data, 0o600))
}

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write implements [io.Writer].
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
