package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// The environment of a session client: a process of its own that works in a session. It is this
// test program, started again.
const (
	sessionClientAddress = "TXMGR_CRASH_GUEST"
	sessionClientLeft    = "TXMGR_CRASH_LEFT"
	sessionClientRight   = "TXMGR_CRASH_RIGHT"
)

// sessionTTL is the TTL of the session, and sessionTxTimeout its transaction's own timeout.
const (
	sessionTTL       = 2 * time.Second
	sessionTxTimeout = time.Hour
)

// runSessionClient begins a transaction in a session, prepares a branch at left and leaves one at
// right unprepared, reports that, and then only keeps the session alive. When the session ends it
// reports why.
func runSessionClient() (code int) {
	err := func() error {
		ctx := context.Background()
		c, err := client.Open(client.Config{Address: os.Getenv(sessionClientAddress), RequestTimeout: waitTimeout})
		if err != nil {
			return err
		}
		b := &bank{m: c, work: map[string]*pgx.Conn{}}
		for name, dsn := range map[string]string{"left": os.Getenv(sessionClientLeft), "right": os.Getenv(sessionClientRight)} {
			if b.work[name], err = pgx.Connect(ctx, dsn); err != nil {
				return err
			}
		}
		s, err := c.OpenSession(ctx, client.SessionOptions{Name: "guest", TTL: sessionTTL})
		if err != nil {
			return err
		}
		begun, err := c.Begin(client.WithSession(ctx, s), txn.Options{Name: "of a guest", Timeout: sessionTxTimeout})
		if err != nil {
			return err
		}
		_, prepared := b.prepare(ctx, begun.ID, "left", "UPDATE account SET balance = balance - 10 WHERE id = 1")
		_, enlisted := b.enlist(ctx, begun.ID, "right", "UPDATE account SET balance = balance + 10 WHERE id = 1")
		if err := errors.Join(prepared, enlisted); err != nil {
			return err
		}
		fmt.Println(begun.ID, s.ID())
		<-s.Done()
		fmt.Println(s.Err())
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		return 1
	}
	return 0
}

// sessionClient is a running session client.
type sessionClient struct {
	cmd     *exec.Cmd
	lines   *bufio.Scanner
	tx      txn.ID
	session txn.SessionID
}

// startSessionClient starts a session client and returns when its work is done.
func (b *bank) startSessionClient() *sessionClient {
	b.t.Helper()
	p := &sessionClient{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), sessionClientAddress+"="+b.c.address, sessionClientLeft+"="+b.dsn["left"], sessionClientRight+"="+b.dsn["right"])
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
	})
	p.lines = bufio.NewScanner(out)
	if !p.lines.Scan() {
		rest, _ := io.ReadAll(out)
		b.t.Fatalf("the guest ended before its work was done: %s", rest)
	}
	tx, session, _ := strings.Cut(p.lines.Text(), " ")
	if p.tx, err = txn.ParseID(tx); err != nil {
		b.t.Fatal(err)
	}
	if p.session, err = txn.ParseSessionID(session); err != nil {
		b.t.Fatal(err)
	}
	return p
}

// locked reports whether the row of a database is locked.
func (b *bank) locked(at string) bool {
	b.t.Helper()
	conn := b.connect(at)
	_, err := conn.Exec(b.t.Context(), "SELECT 1 FROM account WHERE id = 1 FOR UPDATE NOWAIT")
	if err == nil {
		return false
	}
	if !strings.Contains(err.Error(), "55P03") {
		b.t.Fatal(err)
	}
	return true
}

// checkSessionAlive checks for longer than the TTL: the session is open, its transaction undecided,
// both rows are locked.
func (b *bank) checkSessionAlive(p *sessionClient) {
	b.t.Helper()
	until := time.After(2 * sessionTTL)
	for {
		info, err := b.m.Get(b.t.Context(), p.tx)
		if err != nil || info.State != txn.Active || info.Session != p.session || time.Duration(info.ExpiresIn) < sessionTxTimeout/2 {
			b.t.Fatalf("a guest that lives: %v by %v, session %v, %v left, %v", info.State, info.Cause, info.Session, info.ExpiresIn, err)
		}
		if !b.locked("left") || !b.locked("right") {
			b.t.Fatal("a guest that lives holds both rows")
		}
		select {
		case <-until:
			return
		case <-time.After(sessionTTL / 8):
		}
	}
}

// awaitLocksFreed waits until another connection gets both rows, and the transaction has ended
// because its session expired. It returns the time since then.
func (b *bank) awaitLocksFreed(p *sessionClient, since time.Time) time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), waitTimeout)
	defer cancel()
	for _, at := range []string{"left", "right"} {
		if _, err := b.connect(at).Exec(ctx, "UPDATE account SET balance = balance WHERE id = 1"); err != nil {
			b.t.Fatalf("the row at %s stayed locked: %v", at, err)
		}
	}
	took := time.Since(since)
	if got := b.awaitFinished(p.tx, true); got != txn.RolledBack {
		b.t.Errorf("ended %v", got)
	}
	info, err := b.m.Get(ctx, p.tx)
	if err != nil || info.Cause != txn.CauseSessionExpired {
		b.t.Errorf("ended by %v, %v; want %v", info.Cause, err, txn.CauseSessionExpired)
	}
	// The last keep-alive may be a third of the TTL older than the end of the client. The time
	// beyond an eighth is that of a commit of an entry and of the rollback of two branches.
	if least, most := sessionTTL*2/3, sessionTTL*9/8+10*time.Second; took < least || took > most {
		b.t.Errorf("both rows were free after %v; want %v to %v", took, least, most)
	}
	return took
}

// TestKilledClientLosesItsLocks: a client is killed that has prepared one branch and works at
// another, an hour before its transaction's timeout. Within the TTL of its session everything is
// rolled back, and both rows are free.
func TestKilledClientLosesItsLocks(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	b := newBank(t, c)
	p := b.startSessionClient()
	b.checkSessionAlive(p)
	killed := time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // killed
	if !b.locked("left") {
		t.Fatal("what is prepared does not end with its client: nothing is tried here")
	}
	took := b.awaitLocksFreed(p, killed)
	t.Logf("TTL %v, timeout %v; both rows were free %v after kill -9", sessionTTL, sessionTxTimeout, took.Round(time.Millisecond))
}

// TestHangingClientLosesItsLocks: a client that hangs, with its connections open, loses them too,
// and gets an error when it resumes.
func TestHangingClientLosesItsLocks(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	b := newBank(t, c)
	p := b.startSessionClient()
	b.checkSessionAlive(p)
	stopped := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	took := b.awaitLocksFreed(p, stopped)
	t.Logf("TTL %v, timeout %v; both rows were free %v after kill -STOP", sessionTTL, sessionTxTimeout, took.Round(time.Millisecond))
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !p.lines.Scan() || !strings.Contains(p.lines.Text(), txn.CauseSessionExpired.String()) {
		t.Errorf("the client that goes on hears: %q", p.lines.Text())
	}
}

// TestKilledClientAndCoordinator: a coordinator that is killed as well, and restarted, extends the
// session, and then ends it.
func TestKilledClientAndCoordinator(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	b := newBank(t, c)
	p := b.startSessionClient()
	b.checkSessionAlive(p)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // killed
	c.kill()
	if !b.locked("left") {
		t.Fatal("the row is free without a coordinator")
	}
	started := time.Now()
	c.start("")
	took := b.awaitLocksFreed(p, started)
	t.Logf("TTL %v; both rows were free %v after the start of the coordinator", sessionTTL, took.Round(time.Millisecond))
}
