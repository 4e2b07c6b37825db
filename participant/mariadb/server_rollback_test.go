package mariadb

import (
	"context"
	"errors"
	"testing"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/txn"
)

// readers are the ways in which a row is read and locked.
var readers = map[string]func(ctx context.Context, db *DB, tx *txn.Tx, id string) error{
	"DB": func(ctx context.Context, db *DB, tx *txn.Tx, id string) error {
		return db.QueryRow(ctx, tx, "SELECT balance FROM account WHERE id = ? LOCK IN SHARE MODE", id).Scan(new(int))
	},
	"Conn": func(ctx context.Context, db *DB, tx *txn.Tx, id string) error {
		conn, err := db.Conn(ctx, tx)
		if err != nil {
			return err
		}
		return conn.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = ? LOCK IN SHARE MODE", id).Scan(new(int))
	},
}

// TestReadOnlyRolledBackByTheServer: a rollback by the server is not reported as one by the
// application, and nothing is autocommitted afterwards.
func TestReadOnlyRolledBackByTheServer(t *testing.T) {
	strict := testdb.OpenMariaDB(t, testdb.MariaDBConfig{NoFsync: true, Settings: map[string]string{"innodb-rollback-on-timeout": "ON"}})
	type read func(id string) error
	for name, c := range map[string]struct {
		server *testdb.MariaDB
		number uint16
		work   func(ctx context.Context, t *testing.T, s *shops, tx *txn.Tx, read read) error
	}{
		"deadlock": {server, errno.Deadlock, func(ctx context.Context, t *testing.T, s *shops, _ *txn.Tx, read read) error {
			return s.bank.deadlock(ctx, t, read)
		}},
		"lock timeout": {strict, errno.LockTimeout, func(ctx context.Context, t *testing.T, s *shops, tx *txn.Tx, read read) error {
			other, err := s.bank.pool.BeginTx(ctx, nil)
			check(t, err)
			_, err = other.ExecContext(ctx, "UPDATE account SET balance = 51 WHERE id = 'bob'")
			check(t, err)
			_, err = s.bank.db.Exec(ctx, tx, "SET SESSION innodb_lock_wait_timeout = 0")
			check(t, err)
			lost := read("bob")
			check(t, other.Rollback())
			return lost
		}},
		"changed since": {server, errno.Changed, func(ctx context.Context, t *testing.T, s *shops, tx *txn.Tx, read read) error {
			_, err := s.bank.db.Exec(ctx, tx, "SET SESSION innodb_snapshot_isolation = ON")
			check(t, err)
			check(t, s.bank.db.QueryRow(ctx, tx, "SELECT balance FROM account WHERE id = 'alice'").Scan(new(int)))
			s.bank.exec(t, "UPDATE account SET balance = 51 WHERE id = 'bob'")
			return read("bob")
		}},
	} {
		for by, reader := range readers {
			t.Run(name+" by "+by, func(t *testing.T) {
				s := newShopsOn(t, c.server)
				s.bank.db.TxOptions.ReadOnly = true
				s.bank.exec(t, "INSERT INTO account VALUES ('bob', 50)")
				err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					_, err := s.shop.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
					check(t, err)
					err = c.work(ctx, t, s, tx, func(id string) error { return reader(ctx, s.bank.db, tx, id) })
					if errno.Of(err) != c.number {
						t.Errorf("got %v", err)
					}
					if _, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 77"); !errors.Is(err, errRolledBackByServer) {
						t.Errorf("a statement afterwards: %v", err)
					}
					return nil
				})
				if errors.Is(err, txn.ErrEndedByApplication) || !errors.Is(err, txn.ErrRolledBack) {
					t.Errorf("got %v", err)
				}
				s.want(t, 100, 100)
				s.Recover(t, s.Last())
			})
		}
	}
}

// TestReadOnlyGoesOnAfterALockTimeout, which by default rolls back only the statement.
func TestReadOnlyGoesOnAfterALockTimeout(t *testing.T) {
	for by, reader := range readers {
		t.Run(by, func(t *testing.T) {
			s := newShops(t)
			s.bank.db.TxOptions.ReadOnly = true
			check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				other, err := s.bank.pool.BeginTx(ctx, nil)
				check(t, err)
				_, err = other.ExecContext(ctx, "UPDATE account SET balance = 51")
				check(t, err)
				_, err = s.bank.db.Exec(ctx, tx, "SET SESSION innodb_lock_wait_timeout = 0")
				check(t, err)
				if err := reader(ctx, s.bank.db, tx, "alice"); errno.Of(err) != errno.LockTimeout {
					t.Errorf("got %v", err)
				}
				check(t, other.Rollback())
				_, err = s.shop.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
				check(t, err)
				return reader(ctx, s.bank.db, tx, "alice")
			}))
			s.want(t, 100, 1)
		})
	}
}

// deadlock has another transaction lock bob's row and wait for alice's, which lock has
// locked before. lock fails then: it has changed less, so that it is the victim.
func (b *bank) deadlock(ctx context.Context, t *testing.T, lock func(id string) error) error {
	t.Helper()
	check(t, lock("alice"))
	other, err := b.pool.BeginTx(ctx, nil)
	check(t, err)
	_, err = other.ExecContext(ctx, "INSERT INTO account SELECT CONCAT('z', seq), 1 FROM seq_1_to_100")
	check(t, err)
	_, err = other.ExecContext(ctx, "UPDATE account SET balance = 51 WHERE id = 'bob'")
	check(t, err)
	waited := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(ctx, "UPDATE account SET balance = 100 WHERE id = 'alice'")
		waited <- err
	}()
	b.waitForWaiters(t, 1)
	lost := lock("bob")
	check(t, <-waited)
	check(t, other.Rollback())
	return lost
}

// TestReadOnlyRolledBackAfterTheFirstRows: the deadlock comes after some rows have been returned, and
// is detected whether the rows are read or not.
func TestReadOnlyRolledBackAfterTheFirstRows(t *testing.T) {
	for _, read := range []bool{true, false} {
		s := newShops(t)
		s.bank.db.TxOptions.ReadOnly = true
		s.bank.exec(t, "INSERT INTO account VALUES ('bob', 50)")
		s.bank.exec(t, "INSERT INTO account SELECT CONCAT('b0', seq), 1 FROM seq_1_to_200")
		err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := s.shop.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
			check(t, err)
			lost := s.bank.deadlock(ctx, t, func(id string) error {
				if id == "alice" {
					return s.bank.db.QueryRow(ctx, tx, "SELECT balance FROM account WHERE id = 'alice' LOCK IN SHARE MODE").Scan(new(int))
				}
				rows, err := s.bank.db.Query(ctx, tx, "SELECT id, REPEAT('x', 1000) FROM account WHERE id <= 'bob' LOCK IN SHARE MODE")
				check(t, err)
				n := 0
				for (read || n == 0) && rows.Next() {
					n++
				}
				if err := errors.Join(rows.Err(), rows.Close()); n > 0 {
					return err
				}
				return errors.New("no row came before the deadlock")
			})
			if errno.Of(lost) != errno.Deadlock {
				t.Errorf("got %v", lost)
			}
			if _, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 77"); !errors.Is(err, errRolledBackByServer) {
				t.Errorf("read %v: a statement afterwards: %v", read, err)
			}
			return nil
		})
		if errors.Is(err, txn.ErrEndedByApplication) || !errors.Is(err, txn.ErrRolledBack) {
			t.Errorf("read %v: %v", read, err)
		}
		s.want(t, 100, 100)
	}
}
