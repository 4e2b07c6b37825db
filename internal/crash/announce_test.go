package crash

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// The environment of an application that is killed while the coordinator is told of its
// transaction: a process of its own, which is this test program, started again.
const (
	applicationAddress = "TXMGR_CRASH_APPLICATION"
	applicationStep    = "TXMGR_CRASH_STEP"
)

// applicationTimeout is the timeout of its transaction.
const applicationTimeout = 3 * time.Second

// applicationSteps are the steps at which the application is killed. begun tells whether the
// coordinator knows the transaction then, decided whether it has decided to commit.
var applicationSteps = []struct {
	step                     string
	begun, prepared, decided bool
}{
	{step: "named, not begun"},
	{step: "enlisted in the client only", begun: true},
	{step: "begin sent, not answered", begun: true},
	{step: "prepared", begun: true, prepared: true},
	{step: "commit sent, not answered", begun: true, prepared: true, decided: true},
	{step: "not reported", begun: true, decided: true},
	{step: returnedStep, begun: true, prepared: true, decided: true},
}

// returnedStep: the application ends when it has the decision, which it does not await the
// completion of. What it did not complete, recovery completes after the grace period.
const returnedStep = "returned on the decision"

// dyingClient kills its process at a step, when the work of the transaction is done.
type dyingClient struct {
	*client.Client

	step   string
	worked chan struct{} // closed when the statements have been run; nil in the first transaction
}

func (d *dyingClient) at(step string) {
	if d.worked == nil || d.step != step {
		return
	}
	<-d.worked
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (d *dyingClient) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	d.at("named, not begun")
	b, err := d.Client.Begin(ctx, o)
	d.at("begin sent, not answered")
	return b, err
}

func (d *dyingClient) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	d.at("enlisted in the client only")
	return d.Client.Enlist(ctx, id, e)
}

func (d *dyingClient) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	d.at("prepared")
	o, err := d.Client.Commit(ctx, id, c)
	d.at("commit sent, not answered")
	return o, err
}

func (d *dyingClient) ReportCompletion(ctx context.Context, id txn.ID, reports ...txn.CompletionReport) error {
	d.at("not reported")
	return d.Client.ReportCompletion(ctx, id, reports...)
}

// runApplication makes a transaction, by which the client learns to name the next, and dies in
// that.
func runApplication() (code int) {
	err := func() error {
		ctx := context.Background()
		c, err := client.Open(client.Config{Address: os.Getenv(applicationAddress), RequestTimeout: waitTimeout})
		if err != nil {
			return err
		}
		l, err := openLedgers(ctx, os.Getenv(sessionClientLeft), os.Getenv(sessionClientRight))
		if err != nil {
			return err
		}
		step := os.Getenv(applicationStep)
		switch {
		case strings.HasPrefix(step, appointedPrefix):
			return runAppointed(ctx, c, l, step)
		case strings.HasPrefix(step, lastPrefix):
			return runLast(ctx, c, step)
		}
		d := &dyingClient{Client: c, step: step}
		l.returnOnDecision = step == returnedStep
		if err := l.transfer(ctx, d, 0, func(*txn.Tx, string) error { return nil }); err != nil {
			return err
		}
		worked := make(chan struct{})
		d.worked = worked
		err = l.transfer(ctx, d, 10, func(tx *txn.Tx, at string) error {
			if at == "left" {
				fmt.Println(tx)
				if d.step == "enlisted in the client only" {
					return tx.AwaitBegin(ctx)
				}
				return nil
			}
			close(worked)
			return nil
		})
		d.at(returnedStep)
		return err
	}()
	fmt.Fprintln(os.Stderr, "the application was not killed:", err)
	return 1
}

// ledgers are the two databases of a bank as an application uses them.
type ledgers struct {
	left, right      *postgres.DB
	returnOnDecision bool
	lastDecides      bool
	timeout          time.Duration // zero: applicationTimeout
}

// openLedgers opens both. wrap, unless it is nil, makes the connections to the one on a side.
func openLedgers(ctx context.Context, left, right string, wrap ...func(net.Conn) net.Conn) (l ledgers, err error) {
	for dsn, db := range map[string]**postgres.DB{left: &l.left, right: &l.right} {
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			return l, err
		}
		for _, w := range wrap {
			config.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, c net.Conn) (net.Conn, error) { return w(c), nil }
		}
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return l, err
		}
		name := "left"
		if dsn == right {
			name = "right"
		}
		*db = postgres.New(name, pool)
	}
	return l, nil
}

// transfer moves an amount from left to right. after is called after each statement.
func (l ledgers) transfer(ctx context.Context, m txn.Manager, amount int, after func(tx *txn.Tx, at string) error) error {
	return txn.Run(ctx, m, txn.Options{Name: "transfer", Timeout: cmp.Or(l.timeout, applicationTimeout), ReturnOnDecision: l.returnOnDecision, LastDecides: l.lastDecides}, func(ctx context.Context, tx *txn.Tx) error {
		if _, err := l.left.Exec(ctx, tx, "UPDATE account SET balance = balance - $1 WHERE id = 1", amount); err != nil {
			return err
		}
		if err := after(tx, "left"); err != nil {
			return err
		}
		if _, err := l.right.Exec(ctx, tx, "UPDATE account SET balance = balance + $1 WHERE id = 1", amount); err != nil {
			return err
		}
		return after(tx, "right")
	})
}

// TestApplicationDiesWhileItAnnounces: an application is killed at each step between the naming
// of its transaction and the report of its branches. Before the coordinator knows the branches,
// nothing is prepared; both rows are free soon afterwards, and everything ends as decided.
func TestApplicationDiesWhileItAnnounces(t *testing.T) {
	for _, s := range applicationSteps {
		t.Run(s.step, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			id := b.runUntilKilled(c, s.step)
			if _, prepared, _, err := b.state(t.Context()); err != nil || prepared > 0 && !s.prepared {
				t.Errorf("%d branches are prepared, although the application died before it asked for that; %v", prepared, err)
			}
			if _, err := b.m.Get(t.Context(), id); errors.Is(err, txn.ErrNotFound) == s.begun {
				t.Errorf("the coordinator knows the transaction: %v; want %v", err, s.begun)
			}
			if got := b.awaitFinished(id, s.begun); (got == txn.Committed) != s.decided {
				t.Errorf("ended %v; decided to commit: %v", got, s.decided)
			}
			for _, at := range []string{"left", "right"} {
				b.exec(b.connect(at), "SET lock_timeout = '1min'; UPDATE account SET balance = balance WHERE id = 1")
			}
		})
	}
}

// TestCoordinatorDiesBehindTheWork: the coordinator is killed and restarted at each step of a
// transaction that it is told of while the application works. The application sees nothing of
// that.
func TestCoordinatorDiesBehindTheWork(t *testing.T) {
	for _, failpoint := range []string{"begin received:2", "begin applied:2", "commit received:2", "decision proposed:2", "commit applied:2", "done received:2", "done applied:2"} {
		t.Run(failpoint, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			l, err := openLedgers(t.Context(), b.dsn["left"], b.dsn["right"])
			must(t, err)
			c.kill()
			c.start(failpoint)
			must(t, l.transfer(t.Context(), b.m, 0, func(*txn.Tx, string) error { return nil }))
			var id txn.ID
			result := make(chan error, 1)
			go func() {
				result <- txn.Run(context.WithoutCancel(t.Context()), b.m, txn.Options{Name: "transfer", Timeout: 5 * time.Minute}, func(ctx context.Context, tx *txn.Tx) (err error) {
					id, err = txn.ParseID(tx.String())
					_, err2 := l.left.Exec(ctx, tx, "UPDATE account SET balance = balance - 10 WHERE id = 1")
					_, err3 := l.right.Exec(ctx, tx, "UPDATE account SET balance = balance + 10 WHERE id = 1")
					return errors.Join(err, err2, err3)
				})
			}()
			c.awaitFailpointExit(failpoint)
			c.start("")
			if err := <-result; err != nil {
				t.Errorf("transfer: %v", err)
			}
			if got := b.awaitFinished(id, true); got != txn.Committed {
				t.Errorf("acknowledged as committed, ended %v", got)
			}
		})
	}
}

// runUntilKilled runs an application that is killed at a step, and returns its transaction.
func (b *bank) runUntilKilled(c *coordinator, step string) txn.ID {
	t := b.t
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), applicationAddress+"="+c.address, applicationStep+"="+step, sessionClientLeft+"="+b.dsn["left"], sessionClientRight+"="+b.dsn["right"])
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the application did not begin")
	}
	id, err := txn.ParseID(lines.Text())
	must(t, err)
	var killed *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &killed) || killed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the application was not killed: %v", err)
	}
	return id
}
