package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// TestPreparedStatementAfterTheEnd: it is refused, even if its connection serves another
// transaction by then.
func TestPreparedStatementAfterTheEnd(t *testing.T) {
	s := newShops(t)
	s.bank.pool.SetMaxOpenConns(1)
	var late *sql.Stmt
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		conn, err := s.bank.db.Conn(ctx, tx)
		check(t, err)
		late, err = conn.PrepareContext(context.WithoutCancel(ctx), "UPDATE account SET balance = balance - ?")
		check(t, err)
		_, err = late.ExecContext(ctx, 10)
		check(t, err)
		return s.move(ctx, tx, 1)
	}))
	refused := func(when string) {
		if _, err := late.ExecContext(t.Context(), 7); !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("execute %s: %v", when, err)
		}
		if err := late.QueryRowContext(t.Context(), 7).Scan(new(int)); !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("query %s: %v", when, err)
		}
	}
	refused("after the end")
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 1))
		refused("in another transaction")
		return nil
	}))
	check(t, late.Close())
	s.want(t, 88, 102)
}

// TestUnclosedStatementsAreClosed before their connection returns to the pool.
func TestUnclosedStatementsAreClosed(t *testing.T) {
	s := newShops(t)
	s.bank.pool.SetMaxOpenConns(1)
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		conn, err := s.bank.db.Conn(ctx, tx)
		check(t, err)
		for range 3 {
			_, err = conn.PrepareContext(context.WithoutCancel(ctx), "SELECT 1")
			check(t, err)
		}
		return s.move(ctx, tx, 1)
	}))
	var open int
	check(t, s.bank.pool.QueryRowContext(t.Context(), "SELECT SUM(IF(VARIABLE_NAME = 'COM_STMT_PREPARE', 1, -1) * VARIABLE_VALUE) FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME IN ('COM_STMT_PREPARE', 'COM_STMT_CLOSE')").Scan(&open))
	if open != 0 {
		t.Errorf("%d statements are open", open)
	}
	s.want(t, 99, 101)
}

// TestStatementWithArgumentsThatEndsTheTransaction: the error has the same advice as without
// arguments.
func TestStatementWithArgumentsThatEndsTheTransaction(t *testing.T) {
	s := newShops(t)
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		conn, err := s.bank.db.Conn(ctx, tx)
		check(t, err)
		if _, err := conn.ExecContext(ctx, "CREATE TABLE copy AS SELECT ? AS n", 1); !errors.Is(err, txn.ErrManaged) {
			t.Error(err)
		}
		return s.move(ctx, tx, 1)
	}))
	s.want(t, 99, 101)
}

// TestRollbackWaitsForTheStatementInFlight: the driver's connection is used by one
// goroutine at a time, and stays sound.
func TestRollbackWaitsForTheStatementInFlight(t *testing.T) {
	for name, args := range map[string][]any{"as text": nil, "prepared": {1}} {
		t.Run(name, func(t *testing.T) {
			s := newShops(t)
			s.bank.pool.SetMaxOpenConns(1)
			statement := "DO SLEEP(1)"
			if args != nil {
				statement = "DO SLEEP(?)"
			}
			boom, done := errors.New("boom"), make(chan error, 1)
			var before, after uint64
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				conn, err := s.bank.db.Conn(ctx, tx)
				check(t, err)
				check(t, s.move(ctx, tx, 1))
				check(t, conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&before))
				go func() {
					_, err := conn.ExecContext(t.Context(), statement, args...)
					done <- err
				}()
				waittest.NoError(t, func() error {
					var n int
					err := s.shop.pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND STATE = 'User sleep'", before).Scan(&n)
					if err == nil && n == 0 {
						err = errors.New("the statement does not run yet")
					}
					return err
				})
				return boom
			})
			if !errors.Is(err, boom) || !errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("run: %v", err)
			}
			if err := <-done; err != nil {
				t.Errorf("the statement: %v", err)
			}
			check(t, s.bank.pool.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&after))
			if after != before {
				t.Errorf("connection %d is lost", before)
			}
			s.want(t, 100, 100)
		})
	}
}
