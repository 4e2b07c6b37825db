package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// transfer moves money from one database to the other, in one transaction to which the service has
// to agree. m is the coordinator, or one of the crashing clients of this package.
func (t *demo) transfer(ctx context.Context, m txn.Manager, timeout time.Duration, from int, payer, payee string, amount int64) error {
	return txn.Run(ctx, m, txn.Options{Name: "transfer", Timeout: timeout}, func(ctx context.Context, tx *txn.Tx) error {
		if err := t.work(ctx, tx, from, payer, payee, amount); err != nil {
			return err
		}
		return t.service.enlist(ctx, tx, payer, amount)
	})
}

// transferWithoutService is a transfer in which the two databases alone take part. The application
// then completes its branches itself and has a grace period for it, so it can crash in that period.
func (t *demo) transferWithoutService(ctx context.Context, m txn.Manager, amount int64) error {
	return txn.Run(ctx, m, txn.Options{Name: "rebook", Timeout: unusedTimeout}, func(ctx context.Context, tx *txn.Tx) error {
		return t.work(ctx, tx, 0, alice, alice, amount)
	})
}

// work uses the databases always in the same order: transfers in both directions must not wait for
// each other's rows, or connections, in a cycle that no database can detect.
func (t *demo) work(ctx context.Context, tx *txn.Tx, from int, payer, payee string, amount int64) error {
	account, change := [2]string{payer, payee}, [2]int64{-amount, amount}
	if from == 1 {
		account, change = [2]string{payee, payer}, [2]int64{amount, -amount}
	}
	for i, db := range t.dbs {
		if err := db.add(ctx, tx, account[i], change[i]); err != nil {
			return err
		}
	}
	return nil
}

// recordTransfer records a committed transfer in the expected balances.
func (t *demo) recordTransfer(from int, payer, payee string, amount int64) {
	t.expected.add(from, payer, -amount)
	t.expected.add(1-from, payee, amount)
	t.used[payer] += amount
}

// reportBalances reports alice's balances as read from the databases.
func (t *demo) reportBalances(ctx context.Context) error {
	var has [2]int64
	for i, db := range t.dbs {
		b, err := db.balances(ctx)
		if err != nil {
			return err
		}
		has[i] = b[alice]
	}
	t.reporter.printf("%s has %d at %s and %d at %s", alice, has[0], t.dbs[0].name(), has[1], t.dbs[1].name())
	return nil
}

const unusedTimeout = 10 * time.Second // the timeout of transactions that need none

func (t *demo) transferCommits(ctx context.Context) error {
	if err := t.reportBalances(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := t.transfer(ctx, t.m, unusedTimeout, 0, alice, alice, 10); err != nil {
		return err
	}
	t.recordTransfer(0, alice, alice, 10)
	t.reporter.printf("transfer of 10 from %s to %s committed in %v", t.dbs[0].name(), t.dbs[1].name(), time.Since(began).Round(time.Millisecond))
	return t.reportBalances(ctx)
}

// voteNo makes first a database vote no, then the service.
func (t *demo) voteNo(ctx context.Context) error {
	t.reporter.printf("transfer of 500 to %s from %s, whose balance is too low", t.dbs[0].name(), t.dbs[1].name())
	err := t.transfer(ctx, t.m, unusedTimeout, 1, alice, alice, 500)
	if err == nil {
		t.recordTransfer(1, alice, alice, 500)
	}
	t.check(errors.Is(err, txn.ErrRolledBack), fmt.Sprintf("%s votes no: all branches rolled back", t.dbs[1].name()), fmt.Sprint(err))
	const tooMuch = dailyLimit - 5
	t.reporter.printf("both databases prepare a transfer of %d, and %s has to agree to it", tooMuch, serviceName)
	err = t.transfer(ctx, t.m, unusedTimeout, 0, alice, alice, tooMuch)
	if err == nil {
		t.recordTransfer(0, alice, alice, tooMuch)
	}
	t.check(errors.Is(err, txn.ErrVotedNo) && errors.Is(err, txn.ErrRolledBack), fmt.Sprintf("the service votes no: all branches rolled back: %s", refusalReason(err)), fmt.Sprint(err))
	return t.reportBalances(ctx)
}

// refusalReason is the reason of a rollback, as the participant that refused gives it.
func refusalReason(err error) string {
	var e *txn.Error
	if !errors.As(err, &e) {
		return ""
	}
	why, _, _ := strings.Cut(strings.TrimPrefix(e.Detail, serviceName+": "), ";")
	return why
}

const (
	abandonedTimeout = 3 * time.Second
	// maxTimeoutLateness allows for a busy machine. One interval and one commit of the log are
	// usual.
	maxTimeoutLateness = 5 * time.Second
)

func (t *demo) abandoned(ctx context.Context) error {
	m := &crashBeforeCommit{Manager: t.m}
	began := time.Now()
	if err := t.transfer(ctx, m, abandonedTimeout, 0, alice, alice, 20); !errors.Is(err, txn.ErrInDoubt) {
		return fmt.Errorf("the transfer should have been interrupted before its decision: %w", err)
	}
	t.reporter.printf("an application prepares a transfer of 20 in both databases, with a timeout of %v, and dies", abandonedTimeout)
	if err := t.checkPrepared(ctx, m.id); err != nil {
		return err
	}
	freed := make(chan error, 1)
	var through time.Duration
	go func() {
		err := t.dbs[0].deposit(ctx, alice, 1)
		through = time.Since(began)
		freed <- err
	}()
	t.reporter.printf("another writer adds 1 to %s at %s and waits for the lock", alice, t.dbs[0].name())
	info, err := t.countDown(ctx, m.id)
	if err != nil {
		return err
	}
	if err := <-freed; err != nil {
		return fmt.Errorf("the other writer: %w", err)
	}
	t.expected.add(0, alice, 1)
	t.check(info.State == txn.RolledBack && info.Cause == txn.CauseTimeout, "rolled back with the cause timeout", fmt.Sprintf("%v, %v", info.State, info.Cause))
	t.check(through >= abandonedTimeout && through < abandonedTimeout+maxTimeoutLateness,
		fmt.Sprintf("rolled back at its deadline: the other writer continued after %v", through.Round(time.Millisecond)), through.String())
	return t.reportBalances(ctx)
}

// checkPrepared checks that both databases really hold a transaction's branch.
func (t *demo) checkPrepared(ctx context.Context, id txn.ID) error {
	held := map[string]bool{} // by name: two databases of one server may both list it
	for _, db := range t.dbs {
		list, err := db.prepared(ctx, txn.ClusterPrefix(t.cluster))
		if err != nil {
			return err
		}
		for _, xid := range list {
			if _, of, _, ok := txn.ParseXID(xid); ok && of == id {
				held[xid] = true
			}
		}
	}
	t.check(len(held) == 2, "both databases hold their branches prepared, with the locks", fmt.Sprintf("%d prepared", len(held)))
	return nil
}

// countDown shows the survival index of a transaction until it is finished.
func (t *demo) countDown(ctx context.Context, id txn.ID) (txn.Info, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		info txn.Info
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		info, err := t.m.Wait(waiting, id, txn.UntilFinished)
		ended <- end{info, err}
	}()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		info, err := t.m.Get(ctx, id)
		if err != nil {
			return info, err
		}
		if !info.State.Decided() {
			t.reporter.printf("   survival index: it survives %2d more invocations of the timeout thread", info.RemainingInvocations)
		}
		select {
		case e := <-ended:
			return e.info, e.err
		case <-every.C:
		}
	}
}

func (t *demo) killedAfterDecision(ctx context.Context) error {
	coordinator := t.nodes.nodes[0]
	m := &killAfterCommit{Manager: t.m, kill: coordinator.kill}
	pid := coordinator.pid()
	const amount = 30
	err := t.transferWithoutService(ctx, m, amount)
	if m.decided == 0 || !errors.Is(err, txn.ErrInDoubt) {
		return fmt.Errorf("the transfer should have been interrupted right after its decision: %w", err)
	}
	t.summary.Kills++
	t.reporter.printf("the decision to commit is on disk; the coordinator (kill -9 %d) and the application are killed", pid)
	if err := t.checkPrepared(ctx, m.id); err != nil {
		return err
	}
	if err := t.reportBalances(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := t.nodes.start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	t.reporter.printf("the coordinator is started again (process %d)", coordinator.pid())
	info, err := t.m.Wait(ctx, m.id, txn.UntilFinished)
	if err != nil {
		return err
	}
	if info.State == txn.Committed {
		t.expected.add(0, alice, -amount)
		t.expected.add(1, alice, amount)
	}
	t.check(info.State == txn.Committed && info.Heuristic == 0, fmt.Sprintf("recovery committed both branches, %v after the restart began", time.Since(began).Round(time.Millisecond)), info.State.String())
	return t.reportBalances(ctx)
}
