package mariadb

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/txn"
)

// TestReplacedTransactionIsEndedByApplication: a block of statements ends the branch's
// transaction and begins another one of the same name. That one is neither prepared nor
// committed, and rolling it back is not a rollback of the branch.
func TestReplacedTransactionIsEndedByApplication(t *testing.T) {
	const work = "UPDATE account SET balance = balance - 1; "
	for _, returns := range []error{nil, errors.New("boom")} {
		for name, c := range map[string]struct {
			text string
			bank int64
		}{
			"commit":                      {"XA END N; XA COMMIT N ONE PHASE; XA START N; ", 70},
			"rollback and work":           {"XA END N; XA ROLLBACK N; " + work + "XA START N; ", 99},
			"commit, with a savepoint":    {"XA END N; XA COMMIT N ONE PHASE; XA START N; SAVEPOINT txmgr_branch; ", 70},
			"commit, and the end is sent": {"XA END N; XA COMMIT N ONE PHASE; XA START N; " + work + "XA END N; ", 70},
			"commit, and it is prepared":  {"XA END N; XA COMMIT N ONE PHASE; XA START N; " + work + "XA END N; XA PREPARE N; ", 70},
		} {
			for _, branches := range []string{"alone", "beside another"} {
				s := newShops(t)
				err := txn.Run(t.Context(), &waitingManager{s, t}, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					if branches == "alone" {
						_, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = balance - 30")
						check(t, err)
					} else {
						check(t, s.move(ctx, tx, 30))
					}
					b, err := s.bank.db.branch(ctx, tx)
					check(t, err)
					_, err = s.bank.db.Exec(ctx, tx, "BEGIN NOT ATOMIC "+strings.ReplaceAll(c.text, " N", " "+b.name)+"END")
					check(t, err)
					return returns
				})
				if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
					t.Errorf("%s, %s, returns %v: got %v", branches, name, returns, err)
				}
				s.want(t, c.bank, 100)
			}
		}
	}
}

// TestBlocksAreTheBranchsOwnWork: statements that may end a transaction, and do not, have no effect
// on the branch: a block, savepoints, SQL modes that change how texts are parsed, and an XA END.
func TestBlocksAreTheBranchsOwnWork(t *testing.T) {
	boom := errors.New("boom")
	for _, returns := range []error{nil, boom} {
		for _, text := range []string{
			"BEGIN NOT ATOMIC SAVEPOINT a; UPDATE account SET balance = 7; ROLLBACK TO a; RELEASE SAVEPOINT a; END",
			"SET SESSION sql_mode = 'ORACLE'", "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET autocommit = 0", "BEGIN NOT ATOMIC XA END N; END",
		} {
			s := newShops(t)
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				check(t, s.move(ctx, tx, 30))
				b, err := s.bank.db.branch(ctx, tx)
				check(t, err)
				_, err = s.bank.db.Exec(ctx, tx, strings.ReplaceAll(text, " N;", " "+b.name+";"))
				check(t, err)
				return returns
			})
			switch ended := strings.Contains(text, "XA END"); {
			case errors.Is(err, txn.ErrEndedByApplication), !ended && !errors.Is(err, returns), (ended || returns != nil) != errors.Is(err, txn.ErrRolledBack):
				t.Errorf("%s, returns %v: %v", text, returns, err)
			case err == nil:
				s.want(t, 70, 130)
			default:
				s.want(t, 100, 100)
			}
		}
	}
}

// TestDeadlockOfAReplacedTransaction: the server's rollback also removes the savepoint, so that
// nothing is proved about a branch that may have been replaced. For any other branch a deadlock
// is a rollback.
func TestDeadlockOfAReplacedTransaction(t *testing.T) {
	for _, returns := range []error{nil, errors.New("boom")} {
		for _, replaced := range []bool{false, true} {
			s := newShops(t)
			s.bank.exec(t, "INSERT INTO account VALUES ('bob', 50)")
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				_, err := s.shop.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
				check(t, err)
				b, err := s.bank.db.branch(ctx, tx)
				check(t, err)
				want := int64(100)
				if replaced {
					_, err = s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 70 WHERE id = 'alice'")
					check(t, err)
					_, err = s.bank.db.Exec(ctx, tx, "BEGIN NOT ATOMIC "+strings.ReplaceAll("XA END N; XA COMMIT N ONE PHASE; XA START N; ", " N", " "+b.name)+"END")
					check(t, err)
					want = 70
				}
				lock := func(id string) error {
					return s.bank.db.QueryRow(ctx, tx, "SELECT balance FROM account WHERE id = ? LOCK IN SHARE MODE", id).Scan(new(int))
				}
				if lost := s.bank.deadlock(ctx, t, lock); errno.Of(lost) != errno.Deadlock {
					t.Fatalf("got %v", lost)
				}
				if n := s.bank.balance(t, "alice"); n != want {
					t.Errorf("alice has %d, want %d", n, want)
				}
				return returns
			})
			if errors.Is(err, txn.ErrEndedByApplication) != replaced || errors.Is(err, txn.ErrRolledBack) == replaced {
				t.Errorf("returns %v, replaced %v: got %v", returns, replaced, err)
			}
		}
	}
}

// TestErrorAfterReleaseSavepoint: an error that RELEASE SAVEPOINT itself may return proves nothing
// about a transaction that may have been ended.
func TestErrorAfterReleaseSavepoint(t *testing.T) {
	b := newBank(t)
	w := b.work(t, newName().XID, "INSERT INTO account VALUES ('alice', 7)")
	defer w.Release()
	check(t, w.run(t.Context(), "XA END "+w.name)) // XA ROLLBACK would succeed
	w.mayHaveEnded.Store(true)
	why := w.run(t.Context(), "SET STATEMENT max_statement_time = 0.01 FOR SELECT SLEEP(10)")
	if errno.Of(why) != errno.StatementTime {
		why = w.run(t.Context(), "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1969")
	}
	if undone, err := w.rollbackAfter(t.Context(), why); undone || !errors.Is(err, why) {
		t.Errorf("undone: %v, %v", undone, err)
	}
	if err := w.Rollback(t.Context()); !errors.Is(w.unprovenError(err), txn.ErrEndedByApplication) {
		t.Errorf("rollback: %v", err)
	}
}
