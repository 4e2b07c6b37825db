package doctest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/testdb"
)

// dependencies are what a script can need beside the server. Each returns the environment with its
// address; home is the home directory of the script.
var dependencies = map[string]func(ctx context.Context, t *testing.T, home string) []string{
	"postgres": startPostgres,
	"mariadb":  startMariaDB,
	"mailer":   startMailer,
}

func startPostgres(ctx context.Context, t *testing.T, _ string) []string {
	t.Helper()
	pg := testdb.OpenPostgres(t, testdb.PostgresConfig{NoFsync: true})
	env := []string{"PGHOST=127.0.0.1", fmt.Sprintf("PGPORT=%d", pg.Port()), "PGUSER=postgres"}
	for _, name := range []string{"bank", "shop"} {
		if err := pg.CreateDatabase(ctx, name); err != nil {
			t.Fatal(err)
		}
		env = append(env, strings.ToUpper(name)+"_DSN="+pg.DSN(name))
	}
	return env
}

func startMariaDB(ctx context.Context, t *testing.T, home string) []string {
	t.Helper()
	my := testdb.OpenMariaDB(t, testdb.MariaDBConfig{NoFsync: true})
	if err := my.CreateDatabase(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("[client]\nprotocol=tcp\nhost=127.0.0.1\nport=%d\nuser=root\n", my.Port())
	if err := os.WriteFile(filepath.Join(home, ".my.cnf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"SHOP_DSN=" + my.DSN("shop")}
}

var listening = regexp.MustCompile(`(?m)^mailer: listening on (\S+)$`)

// startMailer runs the example of a service.
func startMailer(ctx context.Context, t *testing.T, _ string) []string {
	t.Helper()
	program, log := filepath.Join(t.TempDir(), "mailer"), filepath.Join(t.TempDir(), "log")
	if out, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, root+"/examples/mailer").CombinedOutput(); err != nil {
		t.Fatalf("build the example of a service: %v\n%s", err, out)
	}
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, "-listen", "127.0.0.1:0", "-data", t.TempDir())
	cmd.Stdout, cmd.Stderr = out, out
	var url string
	launch(ctx, t, cmd, func() string { return text(log) }, func() bool {
		m := listening.FindStringSubmatch(text(log))
		if m != nil {
			url = m[1]
		}
		return m != nil
	})
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return []string{"MAIL_URL=" + url}
}

func text(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// startServer runs a command that serves, with a port of its own, and returns its address. It ends
// with the test.
func startServer(ctx context.Context, t *testing.T, env []string, command ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "address")
	args := append(command, "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--address-file", file)
	cmd := exec.CommandContext(ctx, txmgr(t), args...)
	var log bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &log, &log
	var addr string
	launch(ctx, t, cmd, log.String, func() bool {
		b, err := os.ReadFile(file)
		addr = strings.TrimSpace(string(b))
		return err == nil && addr != ""
	})
	return addr
}

// launch starts a program and returns when it is ready. It ends with the test; said returns its
// output, for a test that fails.
func launch(ctx context.Context, t *testing.T, cmd *exec.Cmd, said func() string, ready func() bool) {
	t.Helper()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var problem error
	go func() {
		defer close(ended)
		problem = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), said())
		}
	})
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !ready() {
		select {
		case <-look.C:
		case <-ended:
			t.Fatalf("%s ended before it was ready: %v", filepath.Base(cmd.Path), problem)
		case <-ctx.Done():
			t.Fatalf("%s is not ready: %v", filepath.Base(cmd.Path), ctx.Err())
		}
	}
}
