package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/internal/tailbuf"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant/web"
)

// serviceVariable makes the test program a service: its value is the arguments.
// TXMGR_MAILER_MARIADB makes it one on MariaDB.
const (
	serviceVariable = "TXMGR_MAILER_SERVICE"
	mariadbVariable = "TXMGR_MAILER_MARIADB"
)

var (
	pg    *testdb.Postgres
	maria *testdb.MariaDB
)

func TestMain(m *testing.M) {
	if os.Getenv(serviceVariable) != "" {
		os.Args = append(os.Args[:1], strings.Split(os.Getenv(serviceVariable), " ")...)
		if dsn := os.Getenv(mariadbVariable); dsn != "" {
			serveMariaDB(dsn)
			return
		}
		main()
		return
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	var errPG, errMaria error
	var both sync.WaitGroup
	both.Go(func() { pg, errPG = testdb.StartPostgres(context.Background(), testdb.PostgresConfig{NoFsync: true}) })
	both.Go(func() {
		maria, errMaria = testdb.StartMariaDB(context.Background(), testdb.MariaDBConfig{NoFsync: true})
	})
	both.Wait()
	if errPG == nil {
		defer func() { err = errors.Join(err, pg.Close()) }()
	}
	if errMaria == nil {
		defer func() { err = errors.Join(err, maria.Close()) }()
	}
	if err := errors.Join(errPG, errMaria); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// services are the implementations that are tested against the contract.
var services = map[string]func(t *testing.T, quota int) *service{
	"go on ledger": func(t *testing.T, quota int) *service {
		return startMailer(t, quota, "")
	},
	"go on postgres": func(t *testing.T, quota int) *service {
		return startMailer(t, quota, "", "-dsn", pg.DSN(pg.NewDatabase(t, "mailer")))
	},
	"go on mariadb": func(t *testing.T, quota int) *service {
		return startMailer(t, quota, maria.DSN(maria.NewDatabase(t, "mailer")))
	},
	"python": startPython,
}

// service is a process that can be killed and restarted, on its address.
type service struct {
	url, outbox string
	address     string
	command     func(address string) *exec.Cmd
	cmd         *exec.Cmd
	log         *tailbuf.Buffer
}

func startMailer(t *testing.T, quota int, mariaDSN string, args ...string) *service {
	t.Helper()
	data := t.TempDir()
	return started(t, data, func(address string) *exec.Cmd {
		all := append([]string{"-listen", address, "-data", data, "-quota", fmt.Sprint(quota), "-secret-file", filepath.Join(data, "secret")}, args...)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serviceVariable+"="+strings.Join(all, " "), mariadbVariable+"="+mariaDSN)
		return cmd
	})
}

func startPython(t *testing.T, quota int) *service {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("%v; run: apt-get install python3", err)
	}
	data := t.TempDir()
	return started(t, data, func(address string) *exec.Cmd {
		cmd := exec.Command(python, "-B", "../python/service.py", "--listen", address, "--data", data, "--quota", fmt.Sprint(quota), "--secret-file", filepath.Join(data, "secret"))
		return cmd
	})
}

func started(t *testing.T, data string, command func(string) *exec.Cmd) *service {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(data, "secret"), []byte(secret+"\n"), 0o600))
	s := &service{outbox: filepath.Join(data, "outbox"), address: freeAddress(t), command: command}
	s.start(t)
	t.Cleanup(func() {
		s.kill(t)
		if t.Failed() {
			t.Log(s.log)
		}
	})
	return s
}

// freeAddress returns an address with a port below those of outgoing connections: none of them
// takes it while the service is down.
func freeAddress(t *testing.T) string {
	t.Helper()
	var last error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			check(t, l.Close())
			return l.Addr().String()
		}
		last = err
	}
	t.Fatal(last)
	return ""
}

// start starts the service and waits until it listens.
func (s *service) start(t *testing.T) {
	t.Helper()
	s.cmd, s.log = s.command(s.address), new(tailbuf.Buffer)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	check(t, err)
	check(t, s.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		s.kill(t)
		t.Fatalf("the service says %q, %v; %v", line, err, s.log)
	}
	s.url = url
}

// kill kills the service, as a crash does.
func (s *service) kill(t *testing.T) {
	t.Helper()
	check(t, s.cmd.Process.Signal(syscall.SIGKILL))
	_ = s.cmd.Wait() // it was killed
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serveMariaDB is the mailer on MariaDB.
func serveMariaDB(dsn string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// -listen, address, -data, folder, -quota, number, -secret-file, file
	if err := mailerOnMariaDB(ctx, dsn, os.Args[2], os.Args[4], os.Args[6], os.Args[8]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func mailerOnMariaDB(ctx context.Context, dsn, address, data, quota, secretFile string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS mail_count (name varchar(16) PRIMARY KEY, n bigint NOT NULL)",
		"INSERT IGNORE INTO mail_count VALUES ('free', " + quota + "), ('held', 0), ('sent', 0)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	secret, err := os.ReadFile(secretFile)
	if err != nil {
		return err
	}
	outbox := filepath.Join(data, "outbox")
	if err := os.MkdirAll(outbox, 0o700); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s/txmgr\n", l.Addr())
	b := mailStore[*sql.Tx]{
		barrier: web.SQL(db, web.MariaDB, ""),
		move:    moveRowsMariaDB,
		read:    func(ctx context.Context) (map[string]int64, error) { return readRows(ctx, db) },
	}
	return serve(ctx, l, newMailer(ctx, b, outbox, optionsOf(secret)))
}

func moveRowsMariaDB(ctx context.Context, tx *sql.Tx, from, to string) error {
	if _, err := tx.ExecContext(ctx, "SELECT 1 FROM mail_count WHERE name IN (?, ?) ORDER BY name FOR UPDATE", from, to); err != nil {
		return err
	}
	took, err := tx.ExecContext(ctx, "UPDATE mail_count SET n = n - 1 WHERE name = ? AND n > 0", from)
	if err != nil {
		return err
	}
	if n, err := took.RowsAffected(); err != nil || n == 0 {
		return web.No("no " + from + " mail is left")
	}
	_, err = tx.ExecContext(ctx, "UPDATE mail_count SET n = n + 1 WHERE name = ?", to)
	return err
}

// TestMailerEndsWhenTold: the service ends without an error when it is terminated.
func TestMailerEndsWhenTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ended := make(chan error)
	go func() { ended <- serve(ctx, l, http.NotFoundHandler()) }()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
