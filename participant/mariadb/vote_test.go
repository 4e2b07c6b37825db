package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/innodb"
	"github.com/txmgr/txmgr/txn"
)

// wantNo fails unless the branch votes no, for that reason, and leaves nothing.
func (b *bank) wantNo(t *testing.T, w *branch, br participant.Branch, why string) {
	t.Helper()
	vote, err := w.Prepare(t.Context())
	if vote != txn.VoteNo || err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("voted %v, %v; want no: %s", vote, err, why)
	}
	if err := w.Rollback(t.Context()); err != nil {
		t.Errorf("rollback after a no: %v", err)
	}
	// The connection can return to the pool.
	if w.phase != phaseEnded {
		t.Errorf("the connection is in state %d", w.phase)
	}
	_, err = w.conn.ExecContext(t.Context(), "XA START 'fit'")
	check(t, err)
	_, err = w.conn.ExecContext(t.Context(), "XA END 'fit'")
	check(t, err)
	_, err = w.conn.ExecContext(t.Context(), "XA ROLLBACK 'fit'")
	check(t, err)
	w.Release()
	r := b.opened(t, nil)
	br.SessionRef = w.sessionRef.String()
	res, err := r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	b.wantNothingLeft(t, r)
}

// TestDeadlockVotesNo: InnoDB has rolled back, XA END fails, and XA ROLLBACK is still needed.
func TestDeadlockVotesNo(t *testing.T) {
	t.Run("at once", func(t *testing.T) { deadlock(t, false) })
	t.Run("after another statement", func(t *testing.T) { deadlock(t, true) })
}

func deadlock(t *testing.T, again bool) {
	bank := newBank(t)
	bank.exec(t, "INSERT INTO account VALUES ('alice', 100), ('bob', 100)")
	one, two := newName(), newName()
	a := bank.work(t, one.XID, "UPDATE account SET balance = 1 WHERE id = 'alice'")
	b := bank.work(t, two.XID, "UPDATE account SET balance = 2 WHERE id = 'bob'")
	waited := make(chan error, 1)
	go func() {
		_, err := a.exec(t.Context(), "UPDATE account SET balance = 1 WHERE id = 'bob'")
		waited <- err
	}()
	bank.waitForWaiters(t, 1)
	_, err := b.exec(t.Context(), "UPDATE account SET balance = 2 WHERE id = 'alice'")
	loser, winner, name := b, a, two
	if err == nil {
		loser, winner, name = a, b, one
		err = <-waited
	} else {
		check(t, <-waited)
	}
	if errno.Of(err) != errno.Deadlock {
		t.Fatalf("no deadlock: %v", err)
	}
	if again {
		if _, err := loser.exec(t.Context(), "INSERT INTO account VALUES ('late', 1)"); err == nil || errors.Is(err, txn.ErrManaged) {
			t.Errorf("a statement after the deadlock: %v", err)
		}
	}
	bank.wantNo(t, loser, name, "the server has rolled the transaction back")
	if vote, err := winner.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	check(t, winner.Commit(t.Context()))
	winner.Release()
}

// waitForWaiters returns when so many of this server's transactions wait.
func (b *bank) waitForWaiters(t *testing.T, n int) {
	t.Helper()
	r := b.opened(t, nil)
	waittest.NoError(t, func() error {
		all, err := innodb.Transactions(t.Context(), r.db)
		check(t, err)
		waiting := 0
		for _, x := range all {
			if x.State == "LOCK WAIT" {
				waiting++
			}
		}
		if waiting != n {
			return fmt.Errorf("%d transactions wait, not %d: %v", waiting, n, all)
		}
		return nil
	})
}

// TestLockTimeout: it rolls back the statement, and the transaction only if the server is
// configured so.
func TestLockTimeout(t *testing.T) {
	for _, whole := range []string{"OFF", "ON"} {
		t.Run("innodb_rollback_on_timeout="+whole, func(t *testing.T) {
			bank := newBankOn(t, testdb.OpenMariaDB(t, testdb.MariaDBConfig{NoFsync: true, Settings: map[string]string{"innodb-rollback-on-timeout": whole}}))
			bank.exec(t, "INSERT INTO account VALUES ('alice', 100)")
			other, err := bank.pool.BeginTx(t.Context(), nil)
			check(t, err)
			_, err = other.ExecContext(t.Context(), "UPDATE account SET balance = 50 WHERE id = 'alice'")
			check(t, err)
			br := newName()
			w := bank.work(t, br.XID, "INSERT INTO account VALUES ('bob', 1)")
			_, err = w.exec(t.Context(), "SET STATEMENT innodb_lock_wait_timeout = 0 FOR UPDATE account SET balance = 1 WHERE id = 'alice'")
			if errno.Of(err) != errno.LockTimeout {
				t.Fatalf("got %v", err)
			}
			check(t, other.Rollback())
			if whole == "ON" {
				bank.wantNo(t, w, br, "the server has rolled the transaction back")
				return
			}
			if vote, err := w.Prepare(t.Context()); vote != txn.VotePrepared {
				t.Fatal(vote, err)
			}
			check(t, w.Commit(t.Context()))
			w.Release()
			if a, b := bank.balance(t, "alice"), bank.balance(t, "bob"); a != 100 || b != 1 {
				t.Errorf("alice %d, bob %d", a, b)
			}
		})
	}
}

// TestTransactionEndedByApplicationIsDetected: the server refuses COMMIT, but not XA statements.
func TestTransactionEndedByApplicationIsDetected(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	for name, c := range map[string]struct {
		statements []string
		want       participant.BranchOutcome
		vote       txn.Vote
	}{
		"committed in one phase": {[]string{"XA END %", "XA COMMIT % ONE PHASE"}, participant.Committed, 0},
		"committed":              {[]string{"XA END %", "XA PREPARE %", "XA COMMIT %"}, participant.Committed, 0},
		"rolled back":            {[]string{"XA END %", "XA ROLLBACK %"}, participant.RolledBack, 0},
		"another one":            {[]string{"XA END %", "XA COMMIT % ONE PHASE", "XA START 'own'"}, participant.Committed, 0},
		"prepared":               {[]string{"XA END %", "XA PREPARE %"}, participant.RolledBack, txn.VoteNo},
	} {
		t.Run(name, func(t *testing.T) {
			bank.exec(t, "DELETE FROM account")
			br := newName()
			w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 7)")
			for _, statement := range c.statements {
				check(t, w.run(t.Context(), strings.Replace(statement, "%", w.name, 1)))
			}
			vote, err := w.Prepare(t.Context())
			if vote != c.vote || err == nil || c.vote == 0 && !errors.Is(err, txn.ErrEndedByApplication) {
				t.Errorf("voted %v, %v", vote, err)
			}
			if err := w.Rollback(t.Context()); (err == nil) != (c.vote == txn.VoteNo) {
				t.Errorf("rollback: %v", err)
			}
			w.Release()
			br.SessionRef = w.sessionRef.String()
			res, err := r.Rollback(t.Context(), br)
			wantEnd(t, res, err, c.want) // committed: the expected heuristic outcome
			if c.vote == 0 {
				bank.waitGone(t, w.sessionRef.Conn)
			}
			bank.wantNothingLeft(t, r)
		})
	}
}

// TestConnClosedByTheApplication: the pool has a connection within a transaction then, which the
// coordinator ends.
func TestConnClosedByTheApplication(t *testing.T) {
	bank := newBank(t)
	bank.pool.SetMaxOpenConns(1)
	r := bank.opened(t, nil)
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 7)")
	check(t, w.conn.Close())
	if vote, err := w.Prepare(t.Context()); vote != 0 || !errors.Is(err, sql.ErrConnDone) {
		t.Errorf("voted %v, %v", vote, err)
	}
	if err := w.Rollback(t.Context()); err == nil {
		t.Error("claims to have rolled back")
	}
	w.Release()
	// The next user of that connection gets an error, and the connection is closed.
	next := newName()
	if _, err := bank.begin(t, bank.db, next.XID); err == nil || !strings.Contains(err.Error(), "has returned a connection with an open transaction") {
		t.Errorf("begin: %v", err)
	}
	br.SessionRef = w.sessionRef.String()
	res, err := r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	w = bank.work(t, next.XID, "INSERT INTO account VALUES ('bob', 7)")
	check(t, w.Rollback(t.Context()))
	w.Release()
}

// TestConnectionWithAnOpenTransactionIsDiscarded after each end that leaves a transaction open.
func TestConnectionWithAnOpenTransactionIsDiscarded(t *testing.T) {
	bank := newBank(t)
	bank.pool.SetMaxOpenConns(1)
	r := bank.opened(t, nil)
	for name, leave := range map[string]func(*branch){
		"at work": func(*branch) {},
		"prepared": func(w *branch) {
			_, err := w.Prepare(t.Context())
			check(t, err)
		},
		"statement cut off": func(w *branch) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = w.exec(ctx, "DO SLEEP(3600)")
		},
		"rows left open": func(w *branch) {
			_, err := w.query(t.Context(), "SELECT 1 UNION SELECT 2")
			check(t, err)
			if vote, err := w.Prepare(t.Context()); vote == txn.VotePrepared {
				t.Errorf("voted %v, %v", vote, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			br := newName()
			w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 7)")
			leave(w)
			w.Release()
			var conn uint64
			check(t, bank.pool.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&conn))
			if conn == w.sessionRef.Conn {
				t.Error("the connection went back to the pool")
			}
			br.SessionRef = w.sessionRef.String()
			res, err := r.Rollback(t.Context(), br)
			wantEnd(t, res, err, participant.RolledBack)
		})
	}
}

// TestEnlistedBeforeTheFirstStatement: if the enlistment fails, no work was done and the
// connection is free.
func TestEnlistedBeforeTheFirstStatement(t *testing.T) {
	bank := newBank(t)
	bank.pool.SetMaxOpenConns(1)
	var conn uint64
	check(t, bank.pool.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&conn))
	refused := errors.New("refused")
	r := bank.opened(t, nil)
	_, err := bank.db.begin(t.Context(), func(ctx context.Context, session string, _ []byte) (txn.Branch, error) {
		s, err := ParseSessionRef(session)
		check(t, err)
		if s.Conn != conn || !s.hasMarker() {
			t.Errorf("session reference %v of connection %d", s, conn)
		}
		all, err := innodb.Transactions(ctx, r.db)
		check(t, err)
		if len(all) != 0 {
			t.Errorf("it has begun: %v", all)
		}
		return txn.Branch{}, refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	var again uint64
	check(t, bank.pool.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&again))
	if again != conn {
		t.Error("a connection was thrown away that nothing was done with")
	}
}

// TestOnePhase: the results of the application's own resource.
func TestOnePhase(t *testing.T) {
	bank := newBank(t)
	bank.exec(t, "INSERT INTO account VALUES ('alice', 1)")
	w := bank.work(t, newName().XID, "UPDATE account SET balance = 2")
	if state, err := w.CommitOnePhase(t.Context()); state != txn.BranchCommitted || err != nil || bank.balance(t, "alice") != 2 {
		t.Errorf("%v, %v", state, err)
	}
	w.Release()

	defer bank.exec(t, "SET GLOBAL read_only = OFF")
	bank.exec(t, "CREATE USER IF NOT EXISTS plain@'127.0.0.1'")
	bank.exec(t, "GRANT ALL ON "+bank.name+".* TO plain@'127.0.0.1'")
	db := New("bank", openPool(t, server.DSNAs("plain", bank.name)))
	w = bank.workIn(t, db, newName().XID, "UPDATE account SET balance = 3")
	bank.exec(t, "SET GLOBAL read_only = ON")
	if state, err := w.CommitOnePhase(t.Context()); state != 0 || errno.Of(err) != errno.ReadOnly {
		t.Errorf("on a server that has become read-only, which allows no rollback either: %v, %v", state, err)
	}
	w.Release()
	if n := bank.balance(t, "alice"); n != 2 {
		t.Errorf("alice has %d", n)
	}

	bank.exec(t, "SET GLOBAL read_only = OFF")
	w = bank.work(t, newName().XID, "UPDATE account SET balance = 4")
	bank.exec(t, fmt.Sprintf("KILL %d", w.sessionRef.Conn))
	if state, err := w.CommitOnePhase(t.Context()); state != 0 || err == nil {
		t.Errorf("on a connection that is gone: %v, %v", state, err)
	}
	w.Release()
}
