package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/txn"
)

// shops are two databases of one server under one coordinator.
type shops struct {
	*participanttest.Coordinator
	bank, shop *bank
}

func newShops(t *testing.T) *shops {
	t.Helper()
	return newShopsOn(t, server)
}

func newShopsOn(t *testing.T, server *testdb.MariaDB) *shops {
	t.Helper()
	s := &shops{bank: newBankOn(t, server), shop: newBankOn(t, server)}
	s.shop.db = New("shop", s.shop.pool)
	s.Coordinator = participanttest.NewCoordinator("test", map[string]participant.Participant{"bank": s.bank.opened(t, nil), "shop": s.shop.opened(t, nil)})
	for _, b := range []*bank{s.bank, s.shop} {
		b.exec(t, "INSERT INTO account VALUES ('alice', 100)")
	}
	t.Cleanup(func() { s.CheckNothingPrepared(t) })
	return s
}

// move takes an amount from alice at the bank and gives it to her at the shop.
func (s *shops) move(ctx context.Context, tx *txn.Tx, amount int) error {
	res, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = balance - ? WHERE id = 'alice'", amount)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		return fmt.Errorf("%d rows, %w", n, err)
	}
	_, err = s.shop.db.Exec(ctx, tx, "UPDATE account SET balance = balance + ? WHERE id = 'alice'", amount)
	return err
}

func (s *shops) want(t *testing.T, bank, shop int64) {
	t.Helper()
	if a, b := s.bank.balance(t, "alice"), s.shop.balance(t, "alice"); a != bank || b != shop {
		t.Errorf("bank %d, shop %d; want %d and %d", a, b, bank, shop)
	}
}

func (s *shops) wantReported(t *testing.T) {
	t.Helper()
	if left := s.Unreported(s.Last()); len(left) != 0 {
		t.Errorf("the application did not report %v", left)
	}
}

func TestApplication(t *testing.T) {
	participanttest.RunApplication(t, func(t *testing.T) participanttest.Application {
		s := newShops(t)
		return participanttest.Application{
			Coordinator: s.Coordinator,
			Move:        s.move,
			Sleep: func(ctx context.Context, tx *txn.Tx) error {
				_, err := s.bank.db.Exec(ctx, tx, "DO SLEEP(3600)")
				return err
			},
			Deposit: func(t *testing.T) {
				for _, b := range []*bank{s.bank, s.shop} {
					b.exec(t, "UPDATE account SET balance = balance + 1 WHERE id = 'alice'")
				}
			},
			Balances: func(t *testing.T) (int64, int64) { return s.bank.balance(t, "alice"), s.shop.balance(t, "alice") },
			LimitPools: func(*testing.T) {
				for _, b := range []*bank{s.bank, s.shop} {
					b.pool.SetMaxOpenConns(2)
				}
			},
			Crash: crash,
		}
	})
}

// TestConnectionGoesBackToThePool after each outcome, and the same connection serves the next
// transaction.
func TestConnectionGoesBackToThePool(t *testing.T) {
	s := newShops(t)
	pool := openPool(t, s.bank.dsn)
	pool.SetMaxOpenConns(1)
	db := New("bank", pool)
	var first uint64
	for _, end := range []error{nil, errors.New("no"), nil} {
		var conn uint64
		_ = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := db.Exec(ctx, tx, "UPDATE account SET balance = balance - 1")
			check(t, err)
			check(t, db.QueryRow(ctx, tx, "SELECT CONNECTION_ID()").Scan(&conn))
			return end
		})
		if stats := pool.Stats(); stats.InUse != 0 || stats.Idle != 1 {
			t.Errorf("taken %d, idle %d", stats.InUse, stats.Idle)
		}
		if first == 0 {
			first = conn
		}
		if conn != first {
			t.Error("the pool closed the connection")
		}
	}
	s.want(t, 98, 100)
}

// TestStatementsThatEndTheTransactionAreRefused by the server, whichever way they are sent.
func TestStatementsThatEndTheTransactionAreRefused(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		if err := s.move(ctx, tx, 1); err != nil {
			return err
		}
		for _, statement := range []string{"COMMIT", "ROLLBACK", "BEGIN", "START TRANSACTION", "XA START 'x'", "CREATE TABLE t (n int)", "TRUNCATE TABLE account", "LOCK TABLES account WRITE"} {
			if _, err := s.bank.db.Exec(ctx, tx, statement); !errors.Is(err, txn.ErrManaged) {
				t.Errorf("%s: %v", statement, err)
			}
			if _, err := s.bank.db.Query(ctx, tx, statement); !errors.Is(err, txn.ErrManaged) {
				t.Errorf("%s as a query: %v", statement, err)
			}
			if err := s.bank.db.QueryRow(ctx, tx, statement).Scan(); !errors.Is(err, txn.ErrManaged) {
				t.Errorf("%s as a row: %v", statement, err)
			}
		}
		conn, err := s.bank.db.Conn(ctx, tx)
		check(t, err)
		if _, err := conn.BeginTx(ctx, nil); !errors.Is(err, txn.ErrManaged) || !strings.Contains(err.Error(), "work on it without Begin") {
			t.Errorf("BeginTx: %v", err)
		}
		for _, statement := range []string{"COMMIT", " /* x */ -- y\n# z\nXA END 'x'", "/*!50000 COMMIT */", "XA COMMIT 'x' ONE PHASE", "SET TRANSACTION READ ONLY"} {
			if _, err := conn.ExecContext(ctx, statement); !errors.Is(err, txn.ErrManaged) || !strings.Contains(err.Error(), "was not sent") {
				t.Errorf("%s: %v", statement, err)
			}
			if _, err := conn.PrepareContext(ctx, statement); !errors.Is(err, txn.ErrManaged) {
				t.Errorf("%s, prepared: %v", statement, err)
			}
		}
		for _, statement := range []string{"SAVEPOINT commit", "ROLLBACK TO commit", "BEGIN NOT ATOMIC SELECT 1; END", "XA RECOVER"} {
			_, err := conn.ExecContext(ctx, statement)
			check(t, err)
		}
		check(t, conn.Close())
		conn, err = s.bank.db.Conn(ctx, tx) // closing it has had no effect
		check(t, err)
		_, err = conn.ExecContext(ctx, "UPDATE account SET balance = balance - 10")
		return err
	})
	check(t, err)
	s.want(t, 89, 101)
	s.wantReported(t)
}

// TestReadOnlyDatabaseVotesReadOnly and is never prepared.
func TestReadOnlyDatabaseVotesReadOnly(t *testing.T) {
	s := newShops(t)
	s.shop.db.TxOptions.ReadOnly = true
	var balance int
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
		return errors.Join(err, s.shop.db.QueryRow(ctx, tx, "SELECT balance FROM account").Scan(&balance))
	})
	check(t, err)
	if b := s.Branch(s.Last(), 2); balance != 100 || b.Vote != txn.VoteReadOnly || b.SessionRef != "" {
		t.Errorf("read %d, branch %v", balance, b)
	}
	s.want(t, 1, 100)
	if stats := s.shop.pool.Stats(); stats.InUse != 0 || stats.Idle == 0 {
		t.Errorf("taken %d, idle %d", stats.InUse, stats.Idle)
	}

	err = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.shop.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
		if err == nil || !strings.Contains(err.Error(), "READ ONLY transaction") {
			t.Errorf("a read-only database was written: %v", err)
		}
		return err
	})
	if !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	s.want(t, 1, 100)
	s.wantReported(t)
}

// TestReadOnlyIsHeldTo: SQL can end a read-only transaction and write, which could not be undone
// if another branch voted no.
func TestReadOnlyIsHeldTo(t *testing.T) {
	for name, statements := range map[string][]string{
		"commit":              {"COMMIT"},
		"commit and write":    {"COMMIT", "INSERT INTO account VALUES ('thief', 1)"},
		"commit and go on":    {"COMMIT", "START TRANSACTION", "INSERT INTO account VALUES ('thief', 1)"},
		"rollback and go on":  {"ROLLBACK", "START TRANSACTION READ ONLY"},
		"commit and chain":    {"COMMIT AND CHAIN"},
		"start another":       {"START TRANSACTION READ ONLY"},
		"XA of one's own too": {"COMMIT", "XA START 'own'"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShops(t)
			s.shop.db.TxOptions.ReadOnly = true
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				check(t, past(ctx, s.shop.db, tx, statements...))
				_, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
				return err
			})
			if errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, txn.ErrEndedByApplication) {
				t.Errorf("got %v", err)
			}
			s.want(t, 100, 100)
			s.Recover(t, s.Last(), participant.Unknown) // a read-only branch has no marker row
		})
	}
}

func TestIsolationIsTheCallersChoice(t *testing.T) {
	s := newShops(t)
	s.bank.db.TxOptions.Isolation = sql.LevelReadCommitted
	for want, level := range map[bool]sql.IsolationLevel{true: sql.LevelReadCommitted, false: sql.LevelRepeatableRead} {
		s.bank.db.TxOptions.Isolation = level
		check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			var before, after int64
			check(t, s.bank.db.QueryRow(ctx, tx, "SELECT balance FROM account").Scan(&before))
			s.bank.exec(t, "UPDATE account SET balance = balance + 1")
			err := s.bank.db.QueryRow(ctx, tx, "SELECT balance FROM account").Scan(&after)
			if (before != after) != want {
				t.Errorf("%v: %d, then %d", level, before, after)
			}
			return err
		}))
	}
	s.bank.db.TxOptions.Isolation = sql.LevelLinearizable
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.bank.db.Exec(ctx, tx, "DO 1")
		return err
	})
	if !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("a level that MariaDB has not: %v", err)
	}
	s.Recover(t, s.Last())
}

func TestUseAfterTheEndIsRefused(t *testing.T) {
	s := newShops(t)
	tx, err := txn.Start(t.Context(), s, txn.Options{})
	check(t, err)
	check(t, tx.Rollback(t.Context(), "no"))
	_, errExec := s.bank.db.Exec(t.Context(), tx, "SELECT 1")
	_, errQuery := s.bank.db.Query(t.Context(), tx, "SELECT 1")
	_, errConn := s.bank.db.Conn(t.Context(), tx)
	w := s.bank.work(t, newName().XID, "DO 1")
	check(t, w.Rollback(t.Context()))
	_, errLate := w.exec(t.Context(), "SELECT 1")
	_, errLateQuery := w.query(t.Context(), "SELECT 1")
	for name, err := range map[string]error{
		"exec": errExec, "query": errQuery, "conn": errConn, "row": s.bank.db.QueryRow(t.Context(), tx, "SELECT 1").Scan(),
		"late exec": errLate, "late query": errLateQuery, "late row": w.queryRow(t.Context(), "SELECT 1").Scan(),
	} {
		if !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.Release()
}

// TestOnlyBranchCommitsInOnePhase.
func TestOnlyBranchCommitsInOnePhase(t *testing.T) {
	s := newShops(t)
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
		return err
	}))
	if b := s.Branch(s.Last(), 1); b.Vote != txn.VoteDelegated {
		t.Errorf("voted %v", b.Vote)
	}
	s.want(t, 1, 100)
	s.wantReported(t)
	s.bank.db.MarkerTable = "off" // its outcome could not be proved now
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 2")
		return err
	}))
	if b := s.Branch(s.Last(), 1); b.Vote != txn.VotePrepared {
		t.Errorf("voted %v", b.Vote)
	}
	s.want(t, 2, 100)
}

// TestConnectionsWithAnySettings: the application configures its connections as it wants.
func TestConnectionsWithAnySettings(t *testing.T) {
	for _, parameters := range []string{
		"autocommit=0", "sql_mode=ORACLE", "sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "completion_type=1", "tx_isolation='SERIALIZABLE'",
		"time_zone='-11:00'", "multiStatements=true", "interpolateParams=true&parseTime=true&clientFoundRows=true", "charset=utf8mb3", "lc_messages=de_DE",
	} {
		t.Run(parameters, func(t *testing.T) {
			s := newShops(t)
			pool := openPool(t, s.bank.dsn+"?"+parameters)
			pool.SetMaxOpenConns(1)
			s.bank.db = New("bank", pool)
			for _, end := range []error{nil, errors.New("no"), nil} {
				err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return errors.Join(s.move(ctx, tx, 1), end) })
				if !errors.Is(err, end) {
					t.Errorf("got %v", err)
				}
				s.wantReported(t)
			}
			s.want(t, 98, 102)
			tx, err := txn.Start(t.Context(), s, txn.Options{})
			check(t, err)
			check(t, s.move(t.Context(), tx, 1))
			s.TimeOut(tx.ID())
			s.Recover(t, tx.ID())
			if err := tx.Commit(t.Context()); !errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("got %v", err)
			}
			s.want(t, 98, 102)
		})
	}
}

// BenchmarkBranch is one branch from begin to committed, without a coordinator, compared with the
// same statements without this package.
func BenchmarkBranch(b *testing.B) {
	bank := newBank(b)
	p := bank.opened(b, nil)
	manual := func(b *testing.B) {
		conn, err := bank.pool.Conn(b.Context())
		check(b, err)
		defer func() { check(b, conn.Close()) }()
		for b.Loop() {
			name := "'" + newName().XID + "'"
			for _, statement := range []string{"XA START " + name, "INSERT INTO account VALUES (" + name + ", 1)", "XA END " + name, "XA PREPARE " + name, "XA COMMIT " + name} {
				_, err := conn.ExecContext(b.Context(), statement)
				check(b, err)
			}
		}
	}
	b.Run("manual", manual)
	for _, c := range []struct {
		name   string
		commit func(*branch, participant.Branch) error
	}{
		{"own session", func(w *branch, _ participant.Branch) error { return w.Commit(b.Context()) }},
		{"coordinator", func(w *branch, br participant.Branch) error {
			br.SessionRef = w.sessionRef.String()
			w.Release()
			_, err := p.Commit(b.Context(), br)
			return err
		}},
		{"one phase", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				br := newName()
				w := bank.work(b, br.XID, "INSERT INTO account VALUES ('"+br.XID+"', 1)")
				if c.commit == nil {
					_, err := w.CommitOnePhase(b.Context())
					check(b, err)
					w.Release()
					continue
				}
				if vote, err := w.Prepare(b.Context()); vote != txn.VotePrepared {
					b.Fatal(err)
				}
				check(b, c.commit(w, br))
				w.Release()
			}
		})
	}
}
