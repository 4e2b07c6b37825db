package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// TestTypedCommitOverAFailover: an application ends its branch at PostgreSQL by a COMMIT of its
// own, and the leader is killed. The next leader does not report to the application that began the
// transaction, and works at MariaDB, that nothing was applied.
func TestTypedCommitOverAFailover(t *testing.T) {
	b := newTestCluster(t)
	b.form()
	m := newMoney(b, 4)
	var id txn.ID
	var typed error
	err := txn.Run(t.Context(), b.dial(waitTimeout), txn.Options{Timeout: waitTimeout}, func(ctx context.Context, tx *txn.Tx) error {
		id = tx.ID()
		if _, err := m.maria.Exec(ctx, tx, "UPDATE account SET balance = balance + 1 WHERE id = 1"); err != nil {
			return err
		}
		_, typed = txn.RunIn(ctx, b.dial(waitTimeout), id, func(ctx context.Context, tx *txn.Tx) error {
			if _, err := m.pg.Exec(ctx, tx, "UPDATE account SET balance = balance - 1 WHERE id = 1"); err != nil {
				return err
			}
			ptx, err := m.pg.Tx(ctx, tx)
			if err != nil {
				return err
			}
			_, err = ptx.Conn().PgConn().Exec(ctx, "COMMIT").ReadAll()
			return err
		})
		leader, _ := b.leader()
		leader.Kill()
		return nil
	})
	_, again := b.m.Commit(t.Context(), id, txn.CommitRequest{})
	_, back := b.m.Rollback(t.Context(), id, "late")
	for who, err := range map[string]error{"who typed it": typed, "who began it": err, "who commits again": again, "who rolls back": back} {
		if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
			t.Errorf("%s is told that %v; want %v", who, err, txn.ErrEndedByApplication)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	info, err := b.m.Wait(ctx, id, txn.UntilFinished)
	if err != nil || info.State != txn.RolledBack || info.Heuristic != txn.HeuristicMixed || !info.EndedByApplication() {
		t.Errorf("%+v, %v", info, err)
	}
	var bank, savings int
	b.must(m.bank.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&bank))
	b.must(m.savings.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&savings))
	if bank != openingBalance-1 || savings != openingBalance {
		t.Errorf("%d in the bank, %d saved", bank, savings)
	}
}
