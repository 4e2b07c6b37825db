package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// appointedPrefix begins the steps of an application with one branch, which decides.
const appointedPrefix = "appointed: "

// appointedSteps are the steps at which that application is killed. known tells whether the coordinator learns of the
// transaction, committed whether the branch is committed then.
var appointedSteps = []struct {
	step             string
	known, committed bool
}{
	{step: appointedPrefix + "worked, not announced"},
	{step: appointedPrefix + "announced, not committed", known: true},
	{step: appointedPrefix + "committed, not announced", committed: true},
	{step: appointedPrefix + "committed, not reported", known: true, committed: true},
}

// appointedClient kills its process at a step, or prevents what would follow it.
type appointedClient struct {
	*client.Client

	step   string
	worked chan struct{} // closed when the statement has been run; nil in the first transaction
}

func (d *appointedClient) is(step string) bool {
	return d.worked != nil && d.step == appointedPrefix+step
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (d *appointedClient) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	switch {
	case d.is("worked, not announced"):
		<-d.worked
		die()
	case d.is("committed, not announced"):
		select {}
	}
	b, err := d.Client.Begin(ctx, o)
	if d.is("announced, not committed") {
		<-d.worked
		die()
	}
	return b, err
}

func (d *appointedClient) ReportCompletion(ctx context.Context, id txn.ID, reports ...txn.CompletionReport) error {
	if d.is("committed, not reported") {
		die()
	}
	return d.Client.ReportCompletion(ctx, id, reports...)
}

// withdraw takes an amount from left, in a transaction with that branch only, which can prove how it ends.
func (l ledgers) withdraw(ctx context.Context, m txn.Manager, amount int, worked func(tx *txn.Tx)) error {
	return txn.Run(ctx, m, txn.Options{Name: "withdrawal", Timeout: applicationTimeout}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := l.left.Exec(ctx, tx, "UPDATE account SET balance = balance - $1 WHERE id = 1", amount)
		worked(tx)
		return err
	})
}

// runAppointed makes a transaction, by which the client learns to name the next, and dies in that.
func runAppointed(ctx context.Context, c *client.Client, l ledgers, step string) error {
	d := &appointedClient{Client: c, step: step}
	if err := l.withdraw(ctx, d, 0, func(*txn.Tx) {}); err != nil {
		return err
	}
	worked := make(chan struct{})
	d.worked = worked
	err := l.withdraw(ctx, d, 10, func(tx *txn.Tx) {
		fmt.Println(tx)
		close(worked)
		if !strings.HasPrefix(d.step, appointedPrefix+"committed") {
			select {}
		}
	})
	switch {
	case err == nil && d.is("committed, not announced"):
		die()
	case err == nil:
		select {} // until the report is made
	}
	return err
}

// left is the balance there.
func (b *bank) left() int {
	b.t.Helper()
	balances, prepared, _, err := b.state(b.t.Context())
	if err != nil || prepared != 0 {
		b.t.Errorf("%d prepared, %v", prepared, err)
	}
	return balances[0]
}

// TestApplicationDiesBesideItsAppointment: an application whose only branch decides is killed at each step. The log and the
// database agree, the row is free soon afterwards, and nothing was ever prepared.
func TestApplicationDiesBesideItsAppointment(t *testing.T) {
	for _, s := range appointedSteps {
		t.Run(s.step, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			must(t, b.m.Admin().TestParticipant(t.Context(), "left")) // which creates the marker table
			id := b.runUntilKilled(c, s.step)
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			info, err := b.m.Wait(ctx, id, txn.UntilFinished)
			if known := !errors.Is(err, txn.ErrNotFound); known != s.known || known && err != nil {
				t.Errorf("the coordinator knows the transaction: %v (%v), want %v", known, err, s.known)
			}
			if s.known && (info.State == txn.Committed) != s.committed || info.Heuristic != 0 {
				t.Errorf("ended %v with heuristic %v; committed: %v", info.State, info.Heuristic, s.committed)
			}
			b.exec(b.connect("left"), "SET lock_timeout = '1min'; UPDATE account SET balance = balance WHERE id = 1")
			if got := b.left(); (got == 90) != s.committed {
				t.Errorf("the balance is %d; committed: %v", got, s.committed)
			}
		})
	}
}

// TestCoordinatorDiesBesideAnAppointment: the coordinator is killed and restarted at each step of a transaction whose only
// branch decides. The application sees nothing of that, and the log has the outcome in the end.
func TestCoordinatorDiesBesideAnAppointment(t *testing.T) {
	for _, failpoint := range []string{"begin received:2", "begin applied:2", "done received:2", "done applied:2"} {
		t.Run(failpoint, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			must(t, b.m.Admin().TestParticipant(t.Context(), "left")) // which creates the marker table
			l, err := openLedgers(t.Context(), b.dsn["left"], b.dsn["right"])
			must(t, err)
			c.kill()
			c.start(failpoint)
			must(t, l.withdraw(t.Context(), b.m, 0, func(*txn.Tx) {}))
			var tx *txn.Tx
			if err := l.withdraw(t.Context(), b.m, 10, func(now *txn.Tx) { tx = now }); err != nil {
				t.Errorf("withdrawal: %v", err)
			}
			c.awaitFailpointExit(failpoint)
			c.start("")
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			if info, err := b.m.Wait(ctx, tx.ID(), txn.UntilFinished); err != nil || info.State != txn.Committed || info.Heuristic != 0 {
				t.Errorf("acknowledged as committed, ended %+v, %v", info, err)
			}
			if got := b.left(); got != 90 {
				t.Errorf("the balance is %d", got)
			}
		})
	}
}
