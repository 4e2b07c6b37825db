package postgres

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestHangingConnectionLosesItsRowLocks: another client waits for a row that a backend holds which is
// idle, or runs a statement that never ends. The rollback releases the row.
func TestHangingConnectionLosesItsRowLocks(t *testing.T) {
	for name, hang := range map[string]string{"idle": "", "at a statement": "SELECT pg_sleep(3600)"} {
		t.Run(name, func(t *testing.T) {
			bank := newBank(t)
			bank.exec(t, "INSERT INTO account VALUES ('alice', 100)")
			br := newBranch()
			b := bank.work(t, br.XID, "UPDATE account SET balance = 0 WHERE id = 'alice'")
			br.SessionRef = b.sessionRef.String()
			hung := make(chan error, 1)
			go func() {
				_, err := b.tx.Exec(context.WithoutCancel(t.Context()), "SELECT 1;"+hang, pgx.QueryExecModeSimpleProtocol)
				hung <- err
			}()
			if hang == "" {
				check(t, <-hung)
			}
			got := make(chan error, 1)
			go func() {
				_, err := bank.pool.Exec(t.Context(), "UPDATE account SET balance = balance + 1 WHERE id = 'alice'")
				got <- err
			}()
			waittest.NoError(t, func() error {
				var waiting int
				check(t, bank.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&waiting))
				if waiting != 1 {
					return errors.New("no transaction waits for the row")
				}
				return nil
			})
			r, err := bank.opened(t, nil).Rollback(t.Context(), br)
			wantEnd(t, r, err, participant.RolledBack)
			check(t, <-got)
			if n := bank.balance(t, "alice"); n != 101 {
				t.Errorf("alice has %d", n)
			}
			if hang != "" && <-hung == nil {
				t.Error("the statement came to its end")
			}
			if err := b.Rollback(t.Context()); err == nil {
				t.Error("a connection that has ended claims to have rolled back")
			}
			b.Release()
		})
	}
}

func TestFenceOffEndsNoConnection(t *testing.T) {
	bank := newBank(t)
	br := newBranch()
	b := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	defer b.Release()
	br.SessionRef = b.sessionRef.String()
	r, err := bank.opened(t, map[string]string{"fence": "off"}).Rollback(t.Context(), br)
	wantEnd(t, r, err, participant.RolledBack)
	if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Errorf("the connection was ended: %v, %v", vote, err)
	}
	r, err = bank.opened(t, nil).Rollback(t.Context(), br) // as the sweep does
	wantEnd(t, r, err, participant.RolledBack)
}

// TestPooledConnectionAtOtherWorkIsNotEnded: a backend is the branch's only if process, start and
// transaction all match.
func TestPooledConnectionAtOtherWorkIsNotEnded(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	one := bank.work(t, newBranch().XID, "INSERT INTO account VALUES ('one', 1)")
	two := bank.work(t, newBranch().XID, "INSERT INTO account VALUES ('two', 1)")
	defer one.Release()
	defer two.Release()
	otherXID, otherStart, otherPID := one.sessionRef, one.sessionRef, one.sessionRef
	otherXID.XID = two.sessionRef.XID
	otherStart.Start = otherStart.Start.Add(-time.Microsecond)
	otherPID.PID = two.sessionRef.PID
	for name, s := range map[string]SessionRef{"other transaction": otherXID, "other start": otherStart, "other process": otherPID} {
		br := newBranch()
		br.SessionRef = s.String()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		r, err := p.Rollback(ctx, br)
		cancel()
		if !errors.Is(err, errStillOpen) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for _, b := range []*branch{one, two} {
		if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
			t.Errorf("a connection was killed: %v, %v", vote, err)
		}
		check(t, b.Commit(t.Context()))
	}

	// The whole path: the branch has ended, and its connection is back in the pool and serves
	// another transaction.
	pool, err := pgxpool.New(t.Context(), bank.dsn+"&pool_max_conns=1")
	check(t, err)
	defer pool.Close()
	br := newBranch()
	b := workIn(t, New("bank", pool), br.XID, "INSERT INTO account VALUES ('three', 1)")
	br.SessionRef = b.sessionRef.String()
	check(t, b.Rollback(t.Context()))
	b.Release()
	tx, err := pool.Begin(t.Context())
	check(t, err)
	var pid uint32
	check(t, tx.QueryRow(t.Context(), "INSERT INTO account VALUES ('four', 1) RETURNING pg_backend_pid()").Scan(&pid))
	if pid != b.sessionRef.PID {
		t.Fatalf("the pool has another connection: %d, not %d", pid, b.sessionRef.PID)
	}
	r, err := p.Rollback(t.Context(), br)
	wantEnd(t, r, err, participant.RolledBack)
	check(t, tx.Commit(t.Context()))
}

// TestTransactionNumberAssignedAgainAfterACrash: a number that never reached the disk is assigned
// to another transaction after a crash, and that one's commit proves nothing about the branch.
// PostgreSQL recovers by itself when a single backend is killed, without a restart of the server.
func TestTransactionNumberAssignedAgainAfterACrash(t *testing.T) {
	for name, crashBy := range map[string]func(t *testing.T, b *branch){
		"server killed":  func(t *testing.T, _ *branch) { crash(t) },
		"backend killed": killBackend,
	} {
		t.Run(name, func(t *testing.T) {
			bank := newBank(t)
			p := bank.opened(t, nil)
			for range 5 { // the server may happen to write the number to disk
				br := newBranch()
				b := bank.work(t, br.XID, "SELECT 1") // it has its number and wrote nothing
				br.SessionRef = b.sessionRef.String()
				crashBy(t, b)
				b.Release()
				if !bank.again(t, b.sessionRef.XID) {
					continue
				}
				var r participant.Result
				waittest.NoError(t, func() (err error) {
					r, err = p.Rollback(t.Context(), br)
					return err
				})
				wantEnd(t, r, nil, participant.RolledBack)
				if !strings.Contains(r.Detail, "restarted") {
					t.Errorf("detail %q", r.Detail)
				}
				return
			}
			t.Error("no number was assigned again")
		})
	}
}

// killBackend kills one process of the server, and returns when the server has
// noticed and recovered.
func killBackend(t *testing.T, b *branch) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server.DSN("postgres"))
	check(t, err)
	defer pool.Close()
	var before time.Time
	check(t, pool.QueryRow(t.Context(), "SELECT now()").Scan(&before))
	check(t, syscall.Kill(int(b.sessionRef.PID), syscall.SIGKILL))
	waittest.NoError(t, func() error {
		var recovered bool
		err := pool.QueryRow(t.Context(), "SELECT stats_reset > $1 FROM pg_stat_archiver", before).Scan(&recovered)
		if err == nil && !recovered {
			err = errors.New("the server has not noticed")
		}
		return err
	})
}

// again commits transactions of its own until the number is used, and reports
// whether it was used by one of them.
func (b *bank) again(t *testing.T, xid uint64) bool {
	t.Helper()
	b.pool.Reset()
	for got := uint64(0); ; {
		waittest.NoError(t, func() error {
			return b.pool.QueryRow(t.Context(), "INSERT INTO account VALUES (gen_random_uuid()::text, 1) RETURNING pg_current_xact_id()::text::bigint").Scan(&got)
		})
		if got >= xid {
			return got == xid
		}
	}
}

// TestPreparedNumberIsProofAlsoAfterACrash: a prepare writes the number to disk.
func TestPreparedNumberIsProofAlsoAfterACrash(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	check(t, finishPrepared(t.Context(), bank.pool, commitPrepared, br.XID))
	crash(t)
	bank.pool.Reset()
	waittest.NoError(t, func() error { return p.Check(t.Context()) })
	r, err := p.Rollback(t.Context(), br)
	wantEnd(t, r, err, participant.Committed)
	r, err = p.Commit(t.Context(), br)
	wantEnd(t, r, err, participant.Committed)
}

// TestWorkPreparedUnderAnotherNameIsReported: the coordinator cannot finish it, but its error names
// it.
func TestWorkPreparedUnderAnotherNameIsReported(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	br := newBranch()
	b := bank.work(t, "somebody's", "INSERT INTO account VALUES ('alice', 1)")
	defer b.Release()
	if vote, err := b.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	br.SessionRef = b.sessionRef.String()
	inTime(t, `under the name "somebody's"`, func(ctx context.Context) error {
		_, err := p.Rollback(ctx, br)
		return err
	})
	if r, err := p.Commit(t.Context(), br); err == nil || !strings.Contains(err.Error(), "prepared under another name") {
		t.Errorf("%v, %v", r, err)
	}
	check(t, b.Rollback(t.Context()))
	r, err := p.Rollback(t.Context(), br)
	wantEnd(t, r, err, participant.RolledBack)
}

// TestCoordinatorOfAnotherUser: the errors and checks if the coordinator connects as another user
// than the application, without the privileges for it.
func TestCoordinatorOfAnotherUser(t *testing.T) {
	bank := newBank(t)
	app, other := bank.name+"_app", bank.name+"_other"
	bank.exec(t, "CREATE ROLE "+app+" LOGIN")
	bank.exec(t, "CREATE ROLE "+other+" LOGIN")
	bank.exec(t, "GRANT ALL ON account TO "+app)
	pool, err := pgxpool.New(t.Context(), server.DSNAs(app, bank.name))
	check(t, err)
	defer pool.Close()
	p, err := open(map[string]string{"dsn": server.DSNAs(other, bank.name)})
	check(t, err)
	defer func() { check(t, p.Close()) }()
	says := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}

	check(t, p.Check(t.Context()))
	br := newBranch()
	b := workIn(t, New("bank", pool), br.XID, "INSERT INTO account VALUES ('alice', 1)")
	br.SessionRef = b.sessionRef.String()
	_, err = p.Rollback(t.Context(), br)
	says(err, "run GRANT pg_read_all_stats, pg_signal_backend TO "+other)

	vote, err := b.Prepare(t.Context())
	if vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	b.Release()
	_, err = p.Commit(t.Context(), br)
	says(err, "connect as the user that prepared it")
	says(p.Check(t.Context()), "user "+app+" prepared branches here")
	r, err := bank.opened(t, nil).Commit(t.Context(), br) // a superuser may
	wantEnd(t, r, err, participant.Committed)

	bank.exec(t, "GRANT pg_read_all_stats TO "+other)
	br = newBranch()
	b = workIn(t, New("bank", pool), br.XID, "INSERT INTO account VALUES ('bob', 1)")
	br.SessionRef = b.sessionRef.String()
	_, err = p.Rollback(t.Context(), br)
	says(err, "GRANT pg_signal_backend")
	bank.exec(t, "GRANT pg_signal_backend TO "+other)
	r, err = p.Rollback(t.Context(), br)
	wantEnd(t, r, err, participant.RolledBack)
	b.Release()
}
