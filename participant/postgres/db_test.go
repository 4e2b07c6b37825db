package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/txn"
)

// shops are two databases of one server under one coordinator.
type shops struct {
	*participanttest.Coordinator
	bank, shop *bank
	shopDB     *DB
}

func newShops(t *testing.T) *shops {
	t.Helper()
	s := &shops{bank: newBank(t), shop: newBank(t)}
	s.shopDB = New("shop", s.shop.pool)
	s.Coordinator = participanttest.NewCoordinator("test", map[string]participant.Participant{"bank": s.bank.opened(t, nil), "shop": s.shop.opened(t, nil)})
	for _, b := range []*bank{s.bank, s.shop} {
		b.exec(t, "INSERT INTO account VALUES ('alice', 100)")
	}
	t.Cleanup(func() { s.CheckNothingPrepared(t) })
	return s
}

// move takes an amount from alice at the bank and gives it to her at the shop.
func (s *shops) move(ctx context.Context, tx *txn.Tx, amount int) error {
	tag, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = balance - $1 WHERE id = 'alice'", amount)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("no row: %v", tag)
	}
	if err != nil {
		return err
	}
	_, err = s.shopDB.Exec(ctx, tx, "UPDATE account SET balance = balance + $1 WHERE id = 'alice'", amount)
	return err
}

func (s *shops) want(t *testing.T, bank, shop int64) {
	t.Helper()
	if a, b := s.bank.balance(t, "alice"), s.shop.balance(t, "alice"); a != bank || b != shop {
		t.Errorf("bank %d, shop %d; want %d and %d", a, b, bank, shop)
	}
}

func TestApplication(t *testing.T) {
	participanttest.RunApplication(t, func(t *testing.T) participanttest.Application {
		s := newShops(t)
		return participanttest.Application{
			Coordinator: s.Coordinator,
			Move:        s.move,
			Sleep: func(ctx context.Context, tx *txn.Tx) error {
				_, err := s.bank.db.Exec(ctx, tx, "SELECT pg_sleep(3600)")
				return err
			},
			Deposit: func(t *testing.T) {
				for _, b := range []*bank{s.bank, s.shop} {
					b.exec(t, "UPDATE account SET balance = balance + 1 WHERE id = 'alice'")
				}
			},
			Balances: func(t *testing.T) (int64, int64) { return s.bank.balance(t, "alice"), s.shop.balance(t, "alice") },
			LimitPools: func(t *testing.T) {
				s.bank.db = New("bank", s.bank.through(t, s.bank.dsn+"&pool_max_conns=2").pool)
				s.shopDB = New("shop", s.shop.through(t, s.shop.dsn+"&pool_max_conns=2").pool)
			},
			Crash: func(t *testing.T) {
				crash(t)
				s.bank.pool.Reset()
				s.shop.pool.Reset()
			},
		}
	})
}

// TestVoteNo: one branch votes no, after the other one has voted yes.
func TestVoteNo(t *testing.T) {
	for name, also := range map[string]func(context.Context, *shops, *txn.Tx) error{
		"cannot be prepared": func(ctx context.Context, s *shops, tx *txn.Tx) error {
			_, err := s.shopDB.Exec(ctx, tx, "CREATE TEMP TABLE x (n int)")
			return err
		},
		"error of a statement is ignored": func(ctx context.Context, s *shops, tx *txn.Tx) error {
			_, _ = s.shopDB.Exec(ctx, tx, "nonsense")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShops(t)
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				return errors.Join(s.move(ctx, tx, 1), also(ctx, s, tx))
			})
			if !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, txn.ErrVotedNo) {
				t.Errorf("got %v", err)
			}
			s.want(t, 100, 100)
			if left := s.Unreported(s.Last()); len(left) != 0 {
				t.Errorf("the application did not report %v", left)
			}
		})
	}
}

// TestConnectionGoesBackIdle after each outcome, and the same connection serves the next
// transaction.
func TestConnectionGoesBackIdle(t *testing.T) {
	s := newShops(t)
	pool, err := pgxpool.New(t.Context(), s.bank.dsn+"&pool_max_conns=1")
	check(t, err)
	defer pool.Close()
	db := New("bank", pool)
	var first uint32
	for _, end := range []error{nil, errors.New("no"), nil} {
		var pid uint32
		_ = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			check(t, db.QueryRow(ctx, tx, "UPDATE account SET balance = balance - 1 RETURNING pg_backend_pid()").Scan(&pid))
			return end
		})
		if stat := pool.Stat(); stat.AcquiredConns() != 0 || stat.IdleConns() != 1 {
			t.Errorf("taken %d, idle %d", stat.AcquiredConns(), stat.IdleConns())
		}
		if first == 0 {
			first = pid
		}
		if pid != first {
			t.Error("the pool closed the connection")
		}
	}
	s.want(t, 98, 100)
}

func TestTxIsManaged(t *testing.T) {
	s := newShops(t)
	var kept pgx.Tx
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		ptx, err := s.bank.db.Tx(ctx, tx)
		if err != nil {
			return err
		}
		if again, err := s.bank.db.Tx(ctx, tx); err != nil || again != ptx {
			t.Errorf("another one: %v", err)
		}
		for name, err := range map[string]error{"commit": ptx.Commit(ctx), "rollback": ptx.Rollback(ctx)} {
			if !errors.Is(err, txn.ErrManaged) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for amount, end := range map[int]func(pgx.Tx) error{1: func(n pgx.Tx) error { return n.Commit(ctx) }, 10: func(n pgx.Tx) error { return n.Rollback(ctx) }} {
			nested, err := ptx.Begin(ctx)
			check(t, err)
			_, err = nested.Exec(ctx, "UPDATE account SET balance = balance + $1", amount)
			check(t, err)
			check(t, end(nested))
		}
		n, err := ptx.CopyFrom(ctx, pgx.Identifier{"account"}, []string{"id", "balance"}, pgx.CopyFromRows([][]any{{"x", 1}, {"y", 2}}))
		if err != nil || n != 2 {
			t.Errorf("copy: %d, %v", n, err)
		}
		var batch pgx.Batch
		batch.Queue("UPDATE account SET balance = 5 WHERE id = 'x'")
		check(t, ptx.SendBatch(ctx, &batch).Close())
		rows, err := s.bank.db.Query(ctx, tx, "SELECT id FROM account ORDER BY id")
		check(t, err)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if fmt.Sprint(ids) != "[alice x y]" || err != nil {
			t.Errorf("%v, %v", ids, err)
		}
		kept = ptx
		return nil
	})
	check(t, err)
	s.want(t, 101, 100)
	if n := s.bank.balance(t, "x"); n != 5 {
		t.Errorf("x has %d", n)
	}

	// Another transaction has the connection now.
	ctx := t.Context()
	_, errExec := kept.Exec(ctx, "SELECT 1")
	_, errQuery := kept.Query(ctx, "SELECT 1")
	_, errBegin := kept.Begin(ctx)
	_, errCopy := kept.CopyFrom(ctx, nil, nil, nil)
	_, errPrepare := kept.Prepare(ctx, "", "SELECT 1")
	for name, err := range map[string]error{
		"exec": errExec, "query": errQuery, "begin": errBegin, "copy": errCopy, "prepare": errPrepare,
		"row": kept.QueryRow(ctx, "SELECT 1").Scan(), "batch": kept.SendBatch(ctx, &pgx.Batch{}).Close(),
	} {
		if !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
	if err := kept.Commit(ctx); !errors.Is(err, txn.ErrManaged) {
		t.Errorf("commit after the end: %v", err)
	}
}

// TestReadOnlyDatabaseVotesReadOnly and is never prepared.
func TestReadOnlyDatabaseVotesReadOnly(t *testing.T) {
	s := newShops(t)
	s.shopDB.TxOptions.AccessMode = pgx.ReadOnly
	var balance int
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
		return errors.Join(err, s.shopDB.QueryRow(ctx, tx, "SELECT balance FROM account").Scan(&balance))
	})
	check(t, err)
	if b := s.Branch(s.Last(), 2); balance != 100 || b.Vote != txn.VoteReadOnly || b.SessionRef != "" {
		t.Errorf("read %d, branch %v", balance, b)
	}
	s.want(t, 1, 100)

	err = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.shopDB.Exec(ctx, tx, "UPDATE account SET balance = 1")
		if err == nil || !strings.Contains(err.Error(), "read-only transaction") {
			t.Errorf("a read-only database was written: %v", err)
		}
		return nil
	})
	if !errors.Is(err, txn.ErrVotedNo) {
		t.Errorf("got %v", err)
	}
	s.want(t, 1, 100)
}

// TestReadOnlyIsHeldTo: SQL can make a read-only transaction write, and its COMMIT could not be
// undone if another branch voted no.
func TestReadOnlyIsHeldTo(t *testing.T) {
	for name, sql := range map[string]string{
		"read write": "SET TRANSACTION READ WRITE; INSERT INTO account VALUES ('thief', 1)",
		"and back":   "SET TRANSACTION READ WRITE; INSERT INTO account VALUES ('thief', 1); SET TRANSACTION READ ONLY",
		"savepoint":  "SET TRANSACTION READ WRITE; SAVEPOINT a; INSERT INTO account VALUES ('thief', 1); RELEASE a",
		"temporary":  "SET TRANSACTION READ WRITE; CREATE TEMP TABLE x (n int)",
	} {
		t.Run(name, func(t *testing.T) {
			s := newShops(t)
			s.shopDB.TxOptions.AccessMode = pgx.ReadOnly
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				errShop := past(ctx, s.shopDB, tx, sql)
				_, errBank := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = 1")
				return errors.Join(errShop, errBank)
			})
			if !errors.Is(err, txn.ErrVotedNo) || !strings.Contains(err.Error(), "leave ReadOnly out") {
				t.Errorf("got %v", err)
			}
			if n := s.shop.balance(t, "thief"); n != 0 {
				t.Error("a branch that votes read-only has committed a write")
			}
			s.want(t, 100, 100)
			if left := s.Unreported(s.Last()); len(left) != 0 {
				t.Errorf("the application did not report %v", left)
			}
		})
	}
}

func TestIsolationIsTheCallersChoice(t *testing.T) {
	s := newShops(t)
	s.bank.db.TxOptions.IsoLevel = pgx.Serializable
	check(t, txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		var level string
		err := s.bank.db.QueryRow(ctx, tx, "SHOW transaction_isolation").Scan(&level)
		if level != "serializable" {
			t.Errorf("isolation is %s", level)
		}
		return err
	}))
}

func TestUseAfterTheEndIsRefused(t *testing.T) {
	s := newShops(t)
	tx, err := txn.Start(t.Context(), s, txn.Options{})
	check(t, err)
	check(t, tx.Rollback(t.Context(), "no"))
	_, errExec := s.bank.db.Exec(t.Context(), tx, "SELECT 1")
	_, errQuery := s.bank.db.Query(t.Context(), tx, "SELECT 1")
	_, errTx := s.bank.db.Tx(t.Context(), tx)
	for name, err := range map[string]error{"exec": errExec, "query": errQuery, "tx": errTx, "row": s.bank.db.QueryRow(t.Context(), tx, "SELECT 1").Scan()} {
		if !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkBranch is one branch from begin to committed, without a coordinator.
func BenchmarkBranch(b *testing.B) {
	bank := newBank(b)
	p := bank.open(b, nil)
	defer func() { check(b, p.Close()) }()
	for name, commit := range map[string]func(*branch, participant.Branch) error{
		"own session": func(w *branch, _ participant.Branch) error { return w.Commit(b.Context()) },
		"coordinator": func(_ *branch, br participant.Branch) error { _, err := p.Commit(b.Context(), br); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				br := newBranch()
				w := bank.work(b, br.XID, "INSERT INTO account VALUES ($1, 1)", br.XID)
				if vote, err := w.Prepare(b.Context()); vote != txn.VotePrepared {
					b.Fatal(err)
				}
				check(b, commit(w, br))
				w.Release()
			}
		})
	}
}
