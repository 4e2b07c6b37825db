package mariadb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/txn"
)

// verb is Commit or Rollback.
type verb = func(context.Context, participant.Branch) (participant.Result, error)

func verbs(p participant.Participant) map[string]verb {
	return map[string]verb{"commit": p.Commit, "rollback": p.Rollback}
}

// TestManualFinishIsReportedExactly: the marker row proves how an operator finished the branch. An
// XA ROLLBACK is not on disk at once; after a crash the branch may be prepared again, and then it
// ends as decided.
func TestManualFinishIsReportedExactly(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	for statement, want := range map[string]participant.BranchOutcome{xaCommit: participant.Committed, xaRollback: participant.RolledBack} {
		for name, do := range verbs(r) {
			for _, restart := range []bool{false, true} {
				want := want
				account := fmt.Sprintf("%s after %s, %v", name, statement, restart)
				br := bank.prepared(t, "INSERT INTO account VALUES (?, 1)", account)
				s, err := ParseSessionRef(br.SessionRef)
				check(t, err)
				bank.finishManually(t, statement, br.XID, s)
				if restart {
					crash(t)
				}
				br.Attempts, br.ClientCompletes = 3, true // no proof of anything
				res, err := do(t.Context(), br)
				if restart && want == participant.RolledBack && bank.balance(t, account) == 1 {
					want = participant.Committed
				}
				if err != nil || res.Outcome != want {
					t.Errorf("%s after %s, sent manually (restart: %v): %v, %v", name, statement, restart, res, err)
				}
			}
		}
	}
}

// TestCommitOfABranchThatHasEnded: the outcomes if the branch is not prepared any more.
func TestCommitOfABranchThatHasEnded(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	off := bank.opened(t, map[string]string{"commit_marker": "off"})
	known := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	_, err := r.Rollback(t.Context(), known)
	check(t, err)
	noProof := strings.Split(known.SessionRef, " table=")[0]
	for _, c := range []struct {
		name   string
		r      *resourceManager
		branch participant.Branch
		want   participant.BranchOutcome
		detail string
	}{
		{"proved", r, participant.Branch{SessionRef: known.SessionRef}, participant.RolledBack, "no row in txmgr_branch"},
		{"proved beats a lost answer", r, participant.Branch{SessionRef: known.SessionRef, Attempts: 3, ClientCompletes: true}, participant.RolledBack, "no row in txmgr_branch"},
		{"no session", r, participant.Branch{}, participant.Unknown, "no session reference is recorded"},
		{"no session, an answer was lost", r, participant.Branch{Attempts: 1}, participant.Unknown, "an attempt whose answer was lost may have"},
		{"no session, the application may have", r, participant.Branch{ClientCompletes: true}, participant.Unknown, "the application may have"},
		{"unreadable session", r, participant.Branch{SessionRef: "conn=1"}, participant.Unknown, "no session reference is recorded"},
		{"session without proof", r, participant.Branch{SessionRef: noProof}, participant.Unknown, "wrote no marker row"},
		{"proof is off", off, participant.Branch{SessionRef: known.SessionRef}, participant.Unknown, "commit_marker=off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.branch.XID = newName().XID
			res, err := c.r.Commit(t.Context(), c.branch)
			wantEnd(t, res, err, c.want)
			if !strings.Contains(res.Detail, c.detail) {
				t.Errorf("detail %q, want %q", res.Detail, c.detail)
			}
		})
	}
}

// TestRollbackWithoutProof: that a branch which voted yes is not prepared any more does not prove
// that it was rolled back.
func TestRollbackWithoutProof(t *testing.T) {
	bank := newBank(t)
	off := bank.opened(t, map[string]string{"commit_marker": "off"})
	bank.db.MarkerTable = "off"
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	res, err := off.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	res, err = off.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.Unknown)
	res, err = bank.opened(t, nil).Rollback(t.Context(), br) // a coordinator with a marker table has no row of it
	wantEnd(t, res, err, participant.Unknown)

	br = newName()
	res, err = off.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack) // it never voted, and a late prepare is found
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('bob', 1)")
	br.SessionRef = w.sessionRef.String()
	if strings.Contains(br.SessionRef, "table") {
		t.Errorf("session reference %q", br.SessionRef)
	}
	res, err = off.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	if vote, err := w.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Errorf("a connection was ended that may do other work: %v, %v", vote, err)
	}
	w.Release()
	res, err = off.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	if n := bank.balance(t, "bob"); n != 0 {
		t.Errorf("bob has %d", n)
	}
	res, err = off.ResolveOutcome(t.Context(), br)
	wantEnd(t, res, err, participant.Unknown)
}

// TestErrorsSayWhetherTheAttemptCounts: a call that did not reach the server, or that the server
// refused, had no effect, and does not count as an attempt.
func TestErrorsSayWhetherTheAttemptCounts(t *testing.T) {
	bank := newBank(t)
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	p := bank.opened(t, nil)
	wantNone := func(name string, p participant.Participant, br participant.Branch) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := p.Commit(ctx, br)
		none := (*participant.NoEffectError)(nil)
		if err == nil || !errors.As(err, &none) {
			t.Errorf("%s: error %v; does not say that nothing was done", name, err)
		}
	}
	foreign := newName()
	foreign.XID = txn.XID("other", foreign.TX, 1)
	wantNone("branch of another cluster", p, foreign)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	addr := listener.Addr().String()
	check(t, listener.Close())
	wantNone("connection refused", bank.opened(t, map[string]string{"dsn": "root@tcp(" + addr + ")/bank"}), br)

	lock, err := bank.pool.Conn(t.Context())
	check(t, err)
	defer func() { check(t, lock.Close()) }()
	_, err = lock.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
	check(t, err)
	wantNone("read lock", p, br)
	_, err = lock.ExecContext(t.Context(), "UNLOCK TABLES")
	check(t, err)
	for _, stage := range []string{"START", "BLOCK_COMMIT"} {
		_, err = lock.ExecContext(t.Context(), "BACKUP STAGE "+stage)
		check(t, err)
	}
	wantNone("backup", p, br)
	_, err = lock.ExecContext(t.Context(), "BACKUP STAGE END")
	check(t, err)
	res, err := p.Commit(t.Context(), br)
	wantEnd(t, res, err, participant.Committed)

	for _, err := range []error{nil, errors.New("x"), context.Canceled} {
		if errno.NoEffect(err) {
			t.Errorf("%v is said to have no effect", err)
		}
	}
}

// TestBackupDuringTheVote: a branch that a backup blocks for too long is rolled back, and votes
// no.
func TestBackupDuringTheVote(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	for name, end := range map[string]func(*branch) error{
		"prepare": func(w *branch) error {
			vote, err := w.Prepare(t.Context())
			if vote != txn.VoteNo || !strings.Contains(err.Error(), "Lock wait timeout") {
				return fmt.Errorf("voted %v, %w", vote, err)
			}
			return nil
		},
		"one phase": func(w *branch) error {
			state, err := w.CommitOnePhase(t.Context())
			if state != txn.BranchRolledBack || err == nil {
				return fmt.Errorf("%v, %w", state, err)
			}
			return nil
		},
	} {
		br := newName()
		w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
		_, err := w.exec(t.Context(), "SET lock_wait_timeout = 0")
		check(t, err)
		backup, err := bank.pool.Conn(t.Context())
		check(t, err)
		for _, stage := range []string{"START", "BLOCK_COMMIT"} {
			_, err = backup.ExecContext(t.Context(), "BACKUP STAGE "+stage)
			check(t, err)
		}
		err = end(w)
		_, errEnd := backup.ExecContext(t.Context(), "BACKUP STAGE END")
		check(t, errors.Join(errEnd, backup.Close()))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.Release()
		br.SessionRef = w.sessionRef.String()
		res, err := r.Rollback(t.Context(), br)
		wantEnd(t, res, err, participant.RolledBack)
	}
	bank.wantNothingLeft(t, r)
}

// TestServerKilledDuringPhaseTwo, repeatedly: every branch ends as reported, once.
func TestServerKilledDuringPhaseTwo(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	const rounds, each = 3, 24
	for round := range rounds {
		phaseTwo(t, bank, p, each, func() { crash(t) })
		if n := bank.balance(t, "total"); n != int64(each*(round+1)) {
			t.Errorf("%d of %d branches are committed", n, each*(round+1))
		}
	}
}

// TestConnectionKilledDuringPhaseTwo, at any moment of XA COMMIT.
func TestConnectionKilledDuringPhaseTwo(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	const each = 60
	killed := 0
	phaseTwo(t, bank, p, each, func() {
		for range 40 {
			rows, err := bank.pool.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()")
			check(t, err)
			var ids []string
			for rows.Next() {
				var id string
				check(t, rows.Scan(&id))
				ids = append(ids, id)
			}
			check(t, rows.Close())
			for _, id := range ids {
				if _, err := bank.pool.ExecContext(t.Context(), "KILL "+id); err == nil {
					killed++
				}
			}
		}
	})
	if n := bank.balance(t, "total"); n != each || killed == 0 {
		t.Errorf("%d of %d branches are committed; %d connections were killed", n, each, killed)
	}
	bank.wantNothingLeft(t, p)
}

// phaseTwo prepares branches, commits them while disturb runs, and leaves in the
// account total how many of all branches are committed.
func phaseTwo(t *testing.T, bank *bank, p participant.Participant, n int, disturb func()) {
	t.Helper()
	bank.exec(t, "CREATE TABLE IF NOT EXISTS part (id varchar(64) PRIMARY KEY) ENGINE=InnoDB")
	var all []participant.Branch
	for range n {
		all = append(all, bank.prepared(t, "INSERT INTO part VALUES (?)", newName().XID))
	}
	begun, ends := make(chan struct{}, n), make(chan error, n)
	var wg sync.WaitGroup
	for _, br := range all {
		wg.Go(func() {
			begun <- struct{}{}
			var res participant.Result
			waittest.NoError(t, func() (err error) {
				res, err = p.Commit(t.Context(), br)
				br.Attempts++
				return err
			})
			if res.Outcome != participant.Committed {
				ends <- fmt.Errorf("%s: %v (%s)", br.XID, res.Outcome, res.Detail)
			}
		})
	}
	for range n / 2 {
		<-begun
	}
	disturb()
	wg.Wait()
	close(ends)
	for err := range ends {
		t.Error(err)
	}
	waittest.NoError(t, func() error {
		_, err := bank.pool.ExecContext(t.Context(), "REPLACE INTO account SELECT 'total', COUNT(*) FROM part")
		return err
	})
}

// TestRestartInEachState of a branch.
func TestRestartInEachState(t *testing.T) {
	for name, c := range map[string]struct {
		prepare    bool
		commit     verb
		wantCommit participant.BranchOutcome
		want       int64
	}{
		"at work":  {false, nil, participant.RolledBack, 0},
		"prepared": {true, nil, participant.Committed, 7},
	} {
		t.Run(name, func(t *testing.T) {
			bank := newBank(t)
			p := bank.opened(t, nil)
			br := newName()
			w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 7)")
			br.SessionRef = w.sessionRef.String()
			if c.prepare {
				vote, err := w.Prepare(t.Context())
				check(t, err)
				br.Vote = vote
			}
			crash(t)
			if err := w.Commit(t.Context()); err == nil {
				t.Error("committed on a dead connection")
			}
			w.Release()
			var res participant.Result
			waittest.NoError(t, func() (err error) {
				res, err = p.Commit(t.Context(), br)
				return err
			})
			wantEnd(t, res, nil, c.wantCommit)
			crash(t)
			res, err := p.Commit(t.Context(), br)
			wantEnd(t, res, err, c.wantCommit)
			if n := bank.balance(t, "alice"); n != c.want {
				t.Errorf("alice has %d", n)
			}
		})
	}
}

// TestCallsEndWhenTheParticipantIsClosed, also one that waits.
func TestCallsEndWhenTheParticipantIsClosed(t *testing.T) {
	bank := newBank(t)
	p := bank.open(t, nil)
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 7)")
	defer w.Release()
	ended := make(chan error, 1)
	go func() {
		_, err := p.Rollback(context.Background(), br) // its connection is not recorded
		ended <- err
	}()
	bank.waitUntilBlocked(t, p.(*resourceManager))
	check(t, p.Close())
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call goes on")
	}
	check(t, w.Rollback(t.Context()))
}

// waitUntilBlocked returns when a call of the participant is in progress.
func (b *bank) waitUntilBlocked(t *testing.T, r *resourceManager) {
	t.Helper()
	waittest.NoError(t, func() error {
		if r.db.Stats().OpenConnections == 0 {
			return errors.New("it has not begun")
		}
		return nil
	})
}
