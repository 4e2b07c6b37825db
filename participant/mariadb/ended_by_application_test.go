package mariadb

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// past runs statements on the branch's connection, without any check.
func past(ctx context.Context, db *DB, tx *txn.Tx, statements ...string) error {
	b, err := db.branch(ctx, tx)
	for _, statement := range statements {
		err = errors.Join(err, b.run(ctx, strings.ReplaceAll(statement, "NAME", b.name)))
	}
	return err
}

// TestEndedByApplicationIsNeverRolledBack: the transaction was ended without the SDK. The error permits
// no repetition, and the other branch is rolled back.
func TestEndedByApplicationIsNeverRolledBack(t *testing.T) {
	const work = "UPDATE account SET balance = balance - 1"
	for name, c := range map[string]struct {
		statements []string
		readOnly   bool
		bank       int64
	}{
		"commit":                    {[]string{"XA END NAME", "XA COMMIT NAME ONE PHASE"}, false, 70},
		"rollback and work":         {[]string{"XA END NAME", "XA ROLLBACK NAME", work}, false, 99},
		"read-only, commit, work":   {[]string{"COMMIT", work}, true, 99},
		"read-only, rollback, work": {[]string{"ROLLBACK", work, "START TRANSACTION READ ONLY"}, true, 99},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := newShops(t)
				s.bank.db.TxOptions.ReadOnly = c.readOnly
				boom := errors.New("boom")
				err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					if !c.readOnly {
						_, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = balance - 30")
						check(t, err)
					}
					_, err := s.shop.db.Exec(ctx, tx, "UPDATE account SET balance = balance + 30")
					check(t, err)
					check(t, past(ctx, s.bank.db, tx, c.statements...))
					if fails {
						return boom
					}
					return nil
				})
				if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) || txn.CodeOf(err) != txn.CodeInDoubt || errors.Is(err, boom) != fails {
					t.Errorf("code %s: %v", txn.CodeOf(err), err)
				}
				if _, err := s.Commit(t.Context(), s.Last(), txn.CommitRequest{}); !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
					t.Errorf("another application gets %v", err)
				}
				s.want(t, c.bank, 100)
			})
		}
	}
}

// TestUseOfTheConnectionAfterTheEnd is refused.
func TestUseOfTheConnectionAfterTheEnd(t *testing.T) {
	s := newShops(t)
	var exec, query, prepare func() error
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		conn, err := s.bank.db.Conn(ctx, tx)
		check(t, err)
		exec = func() error { _, err := conn.ExecContext(t.Context(), "UPDATE account SET balance = 0"); return err }
		query = func() error { return conn.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int)) }
		prepare = func() error { _, err := conn.PrepareContext(t.Context(), "SELECT 1"); return err }
		check(t, query())
		return s.move(ctx, tx, 1)
	})
	check(t, err)
	for name, try := range map[string]func() error{"exec": exec, "query": query, "prepare": prepare} {
		if err := try(); err == nil {
			t.Errorf("%s was sent", name)
		}
	}
	s.want(t, 99, 101)
}
