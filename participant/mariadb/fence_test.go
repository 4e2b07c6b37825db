package mariadb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// TestHangingConnectionLosesItsRowLocks: another client waits for a row that a connection holds which
// is idle, or runs a statement that never ends. The rollback releases the row.
func TestHangingConnectionLosesItsRowLocks(t *testing.T) {
	for name, hang := range map[string]string{"idle": "DO 1", "at a statement": "DO SLEEP(3600)"} {
		t.Run(name, func(t *testing.T) {
			bank := newBank(t)
			bank.exec(t, "INSERT INTO account VALUES ('alice', 100)")
			br := newName()
			w := bank.work(t, br.XID, "UPDATE account SET balance = 0 WHERE id = 'alice'")
			br.SessionRef = w.sessionRef.String()
			hung := make(chan error, 1)
			go func() {
				_, err := w.exec(context.WithoutCancel(t.Context()), hang)
				hung <- err
			}()
			if name == "idle" {
				check(t, <-hung)
			}
			got := make(chan error, 1)
			go func() {
				_, err := bank.pool.ExecContext(t.Context(), "UPDATE account SET balance = balance + 1 WHERE id = 'alice'")
				got <- err
			}()
			bank.waitForWaiters(t, 1)
			res, err := bank.opened(t, nil).Rollback(t.Context(), br)
			wantEnd(t, res, err, participant.RolledBack)
			check(t, <-got)
			if n := bank.balance(t, "alice"); n != 101 {
				t.Errorf("alice has %d", n)
			}
			if name != "idle" && <-hung == nil {
				t.Error("the statement came to its end")
			}
			if err := w.Rollback(t.Context()); err == nil {
				t.Error("a connection that has ended claims to have rolled back")
			}
			w.Release()
		})
	}
}

func TestFenceOffEndsNoConnection(t *testing.T) {
	bank := newBank(t)
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	br.SessionRef = w.sessionRef.String()
	r := bank.opened(t, map[string]string{"fence": "off"})
	res, err := r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	if vote, err := w.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Errorf("the connection was ended: %v, %v", vote, err)
	}
	// The connection has prepared and is idle; only its end lets another one finish the branch.
	res, err = r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	w.Release()
	if n := bank.balance(t, "alice"); n != 0 {
		t.Errorf("alice has %d", n)
	}
}

// TestPooledConnectionAtOtherWorkIsNotEnded: the branch has ended, its connection is back in the pool
// and serves another transaction, and many workers roll the branch back.
func TestPooledConnectionAtOtherWorkIsNotEnded(t *testing.T) {
	bank := newBank(t)
	bank.pool.SetMaxOpenConns(1)
	coordinators := []*resourceManager{bank.opened(t, nil), bank.opened(t, nil)}
	for _, commit := range []bool{false, true} {
		for range 20 {
			br := newName()
			w := bank.work(t, br.XID, "REPLACE INTO account VALUES ('three', 1)")
			br.SessionRef = w.sessionRef.String()
			want := participant.RolledBack
			if commit {
				_, err := w.CommitOnePhase(t.Context())
				check(t, err)
				want = participant.Committed
			} else {
				check(t, w.Rollback(t.Context()))
			}
			w.Release()
			next := bank.work(t, newName().XID, "REPLACE INTO account VALUES ('four', 1)")
			if next.sessionRef.Conn != w.sessionRef.Conn {
				t.Fatalf("the pool has another connection: %d, not %d", next.sessionRef.Conn, w.sessionRef.Conn)
			}
			var wg sync.WaitGroup
			for _, r := range coordinators {
				for range 4 {
					wg.Go(func() {
						do := r.Rollback
						if commit {
							do = r.ResolveOutcome
						}
						res, err := do(t.Context(), br)
						wantEnd(t, res, err, want)
					})
				}
			}
			wg.Wait()
			if vote, err := next.Prepare(t.Context()); vote != txn.VotePrepared {
				t.Fatalf("the connection was killed: %v, %v", vote, err)
			}
			check(t, next.Commit(t.Context()))
			next.Release()
		}
	}
}

// TestSlowCoordinatorIsNotTakenForTheApplication: a coordinator that is still writing the barrier
// holds the branch's row as the branch itself would. The branch's connection serves another
// transaction by then.
func TestSlowCoordinatorIsNotTakenForTheApplication(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	br := newName()
	w := bank.work(t, newName().XID, "REPLACE INTO account VALUES ('other work', 1)")
	br.SessionRef = w.sessionRef.String()
	slow, err := bank.pool.Conn(t.Context())
	check(t, err)
	defer func() { check(t, slow.Close()) }()
	run := func(statements ...string) {
		for _, statement := range statements {
			_, err := slow.ExecContext(t.Context(), statement)
			check(t, err)
		}
	}
	run("DO GET_LOCK('"+markertable.LockName(br.XID)+"', 0)", "BEGIN", "INSERT INTO txmgr_branch (xid, kind) VALUES ('"+br.XID+"', 2)")
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if res, err := r.Rollback(ctx, br); !errors.Is(err, markertable.ErrBusy) {
		t.Errorf("%v, %v", res, err)
	}
	run("COMMIT", "DO RELEASE_ALL_LOCKS()")
	res, err := r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	if vote, err := w.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Errorf("the connection was ended: %v, %v", vote, err)
	}
	check(t, w.Rollback(t.Context()))
	w.Release()
}

// TestConnectionIDOfAnEarlierServer: a restarted server numbers connections anew, and the
// connection with the recorded number is not the branch's.
func TestConnectionIDOfAnEarlierServer(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	w := bank.work(t, newName().XID, "INSERT INTO account VALUES ('alice', 1)")
	s := w.sessionRef
	s.Start--
	br := newName()
	br.SessionRef = s.String()
	prepared := bank.prepared(t, "INSERT INTO account VALUES ('bob', 1)")
	prepared.SessionRef = s.String()
	for _, b := range []participant.Branch{br, prepared} {
		res, err := r.Rollback(t.Context(), b)
		wantEnd(t, res, err, participant.RolledBack)
	}
	if vote, err := w.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Errorf("the connection was killed: %v, %v", vote, err)
	}
	check(t, w.Rollback(t.Context()))
	w.Release()
}

// TestPreparedByAConnectionThatIsNotRecorded: as long as any connection has a transaction open, it
// may be the one that prepared, and the branch is not finished.
func TestPreparedByAConnectionThatIsNotRecorded(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	for name, do := range verbs(r) {
		br := newName()
		w := bank.work(t, br.XID, "REPLACE INTO account VALUES ('alice', 1)")
		vote, err := w.Prepare(t.Context())
		check(t, err)
		br.Vote = vote
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		res, err := do(ctx, br)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("open: %d", w.sessionRef.Conn)) {
			t.Errorf("%s while its connection exists: %v, %v", name, res, err)
		}
		// Other transactions begin and end meanwhile.
		ctx, cancel = context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = bank.pool.ExecContext(ctx, "REPLACE INTO account VALUES ('busy', 1)")
			}
		})
		wg.Go(func() {
			defer cancel()
			w.Release()
			res, err := do(t.Context(), br)
			want := map[string]participant.BranchOutcome{"commit": participant.Committed, "rollback": participant.RolledBack}
			wantEnd(t, res, err, want[name])
		})
		wg.Wait()
	}
	bank.wantNothingLeft(t, r)
}

// TestCoordinatorOfAnotherUser: the errors and checks if the coordinator connects as another user
// than the application, without the privileges for it.
func TestCoordinatorOfAnotherUser(t *testing.T) {
	bank := newBank(t)
	app, other := "app_"+bank.name, "other_"+bank.name
	for _, user := range []string{app, other} {
		bank.exec(t, "CREATE USER "+user+"@'127.0.0.1'")
		bank.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+bank.name+".* TO "+user+"@'127.0.0.1'")
	}
	db := New("bank", openPool(t, server.DSNAs(app, bank.name)))
	open := func() *resourceManager {
		p, err := open(map[string]string{"dsn": server.DSNAs(other, bank.name)})
		check(t, err)
		t.Cleanup(func() { check(t, p.Close()) })
		return p.(*resourceManager)
	}
	says := func(err error, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %s", err, text)
			}
		}
	}

	// The marker table does not exist, and the coordinator's user may not create it.
	_, err := bank.begin(t, db, newName().XID)
	says(err, "CREATE TABLE IF NOT EXISTS `txmgr_branch`", "GRANT SELECT, INSERT, UPDATE, DELETE ON `txmgr_branch` TO '"+app+"'@'127.0.0.1'")
	r := open()
	says(r.Check(t.Context()), "GRANT PROCESS, CONNECTION ADMIN ON *.* TO '"+other+"'@'127.0.0.1'")
	bank.exec(t, "GRANT PROCESS ON *.* TO "+other+"@'127.0.0.1'")
	says(r.Check(t.Context()), "CREATE TABLE IF NOT EXISTS `txmgr_branch`")
	check(t, bank.opened(t, nil).Check(t.Context()))
	check(t, r.Check(t.Context()))

	br := newName()
	w := bank.workIn(t, db, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	br.SessionRef = w.sessionRef.String()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = r.Rollback(ctx, br)
	says(err, "GRANT CONNECTION ADMIN ON *.* TO '"+other+"'@'127.0.0.1'")
	bank.exec(t, "GRANT CONNECTION ADMIN ON *.* TO "+other+"@'127.0.0.1'")
	r = open()
	res, err := r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	w.Release()

	bank.exec(t, "REVOKE DELETE ON "+bank.name+".* FROM "+other+"@'127.0.0.1'")
	says(open().Check(t.Context()), "GRANT SELECT, INSERT, UPDATE, DELETE ON `txmgr_branch`")
}
