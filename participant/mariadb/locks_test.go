package mariadb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// wantLines fails unless the lines have, together, all the texts.
func wantLines(t *testing.T, what string, lines []string, texts ...string) {
	t.Helper()
	all := strings.Join(lines, "\n")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%s: %q, want %q", what, lines, text)
		}
	}
	if len(texts) == 0 && len(lines) != 0 {
		t.Errorf("%s: %q, want none", what, lines)
	}
}

// TestInspectLocks lists the cluster's branches and those of others, with their locks and waiters.
func TestInspectLocks(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	bank.exec(t, "INSERT INTO account VALUES ('alice', 100), ('bob', 100)")
	begun := time.Now()
	ours := bank.prepared(t, "UPDATE account SET balance = 1 WHERE id = 'alice'")
	foreign := bank.work(t, "another owner's", "UPDATE account SET balance = 1 WHERE id = 'bob'")
	if vote, err := foreign.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	working := bank.work(t, newName().XID, "INSERT INTO account VALUES ('carol', 1)")
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := bank.pool.ExecContext(ctx, "UPDATE account SET balance = 3 /* not to be shown */ WHERE id = 'alice'")
		waited <- err
	}()
	bank.waitForWaiters(t, 1)

	held, err := r.InspectLocks(t.Context())
	check(t, err)
	got := map[string]participant.PreparedDetails{}
	for _, h := range held {
		got[h.XID] = h
		if h.Orphaned {
			t.Errorf("a ghost: %v", h)
		}
	}
	if len(got) != 2 {
		t.Errorf("got %v", held)
	}
	h := got[ours.XID]
	if d := h.Since.Sub(begun).Abs(); d > time.Minute || h.Owner != "database "+bank.name {
		t.Errorf("since %v (%v off), owner %q", h.Since, d, h.Owner)
	}
	wantLines(t, "locks", h.Locks, "rows in 2 tables, 2 rows changed", "X on `"+bank.name+"`.`account` PRIMARY")
	wantLines(t, "waiters", h.Waiters, "root@127.0.0.1:", "database "+bank.name, "waits for X on `"+bank.name+"`.`account` PRIMARY")
	if strings.Contains(fmt.Sprint(held), "not to be shown") {
		t.Errorf("shows statements: %v", held)
	}
	wantLines(t, "locks of another", got["another owner's"].Locks, "rows in 2 tables")
	wantLines(t, "waiters of another", got["another owner's"].Waiters)

	cancel()
	<-waited
	check(t, foreign.Rollback(t.Context()))
	foreign.Release()
	check(t, working.Rollback(t.Context()))
	working.Release()
	res, err := r.Rollback(t.Context(), ours)
	wantEnd(t, res, err, participant.RolledBack)
}

// TestInspect a branch in each of its states.
func TestInspect(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	want := func(br participant.Branch, w participant.BranchReport, details ...string) {
		t.Helper()
		got, err := r.Inspect(t.Context(), br)
		check(t, err)
		if got.Prepared != w.Prepared || got.Outcome != w.Outcome || got.Since.IsZero() == (w.Prepared || w.Outcome == 0) {
			t.Errorf("got %+v, want %+v", got, w)
		}
		wantLines(t, "detail", []string{got.Detail}, details...)
	}
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	br.SessionRef = w.sessionRef.String()
	conn := fmt.Sprintf("connection %d", w.sessionRef.Conn)
	want(br, participant.BranchReport{}, conn+" is at work", conn+" (root@127.0.0.1:", "is at Sleep for ")
	vote, err := w.Prepare(t.Context())
	check(t, err)
	br.Vote = vote
	want(br, participant.BranchReport{Prepared: true}, "it is prepared", conn+" (root@")
	w.Release()
	bank.waitGone(t, w.sessionRef.Conn)
	want(br, participant.BranchReport{Prepared: true}, "it is prepared", conn+" has ended")
	_, err = r.Commit(t.Context(), br)
	check(t, err)
	want(br, participant.BranchReport{Outcome: participant.Committed}, "its row is in txmgr_branch")

	done := bank.prepared(t, "INSERT INTO account VALUES ('bob', 1)")
	_, err = r.Rollback(t.Context(), done)
	check(t, err)
	want(done, participant.BranchReport{Outcome: participant.RolledBack}, "no row in txmgr_branch", "has ended")
	_, err = r.Rollback(t.Context(), done)
	check(t, err)
	want(done, participant.BranchReport{Outcome: participant.RolledBack}, "a barrier is in txmgr_branch")
	never := newName()
	want(never, participant.BranchReport{Outcome: participant.RolledBack}, "not prepared", "no session reference is recorded")
	never.Vote = txn.VotePrepared
	want(never, participant.BranchReport{Outcome: participant.Unknown}, "no session reference is recorded")
	if _, err := bank.opened(t, map[string]string{"dsn": "root@tcp(127.0.0.1:1)/bank"}).Inspect(t.Context(), br); err == nil {
		t.Error("a server that is not there says something")
	}
}

// TestInspectABranchInALockWait: the report names the lock and its holder, a connection or a
// prepared branch.
func TestInspectABranchInALockWait(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	bank.exec(t, "INSERT INTO account VALUES ('alice', 100), ('bob', 100)")
	owner := newName()
	holds := bank.work(t, owner.XID, "UPDATE account SET balance = 1 WHERE id = 'alice'")
	br := newName()
	waits := bank.work(t, br.XID, "UPDATE account SET balance = 1 WHERE id = 'bob'")
	br.SessionRef = waits.sessionRef.String()
	over := make(chan error, 1)
	go func() {
		_, err := waits.exec(t.Context(), "UPDATE account SET balance = 2 WHERE id = 'alice'")
		over <- err
	}()
	bank.waitForWaiters(t, 1)
	want := func(who string) {
		t.Helper()
		got, err := r.Inspect(t.Context(), br)
		check(t, err)
		if got.Prepared || got.Outcome != 0 {
			t.Errorf("got %+v", got)
		}
		wantLines(t, "detail", []string{got.Detail}, fmt.Sprintf("connection %d waits for a lock: X on `%s`.`account` PRIMARY, which %s", waits.sessionRef.Conn, bank.name, who))
		for _, l := range got.Locks {
			if strings.Contains(l, "account") {
				t.Errorf("said to hold what it waits for: %q", l)
			}
		}
	}
	want(fmt.Sprintf("connection %d (root@127.0.0.1:", holds.sessionRef.Conn))
	if vote, err := holds.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	holds.Release()
	bank.waitGone(t, holds.sessionRef.Conn)
	want("a prepared transaction holds")
	owner.Vote, owner.SessionRef = txn.VotePrepared, holds.sessionRef.String()
	res, err := r.Rollback(t.Context(), owner)
	wantEnd(t, res, err, participant.RolledBack)
	check(t, <-over)
	check(t, waits.Rollback(t.Context()))
	waits.Release()
}

// TestOrphanedLocksAreReportedEverywhere: all reports show orphaned locks, and a restart lists the branch
// again. The test makes them with the unsafe order.
func TestOrphanedLocksAreReportedEverywhere(t *testing.T) {
	s := testdb.OpenMariaDB(t, testdb.MariaDBConfig{NoFsync: true})
	bank := newBankOn(t, s)
	r := bank.opened(t, nil)
	r.skipDisconnect = true
	lost, done := bank.race(t, r, 6, 60_000)
	r.skipDisconnect = false
	if len(lost) == 0 {
		t.Fatalf("no branch was lost in %d", done)
	}
	t.Logf("%d branches lost after %d", len(lost), done)
	br := lost[0].branch
	if !errors.Is(lost[0].err, errOrphaned) {
		t.Errorf("the loss was reported as %v", lost[0].err)
	}
	for name, do := range verbs(r) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if res, err := do(ctx, br); !errors.Is(err, errOrphaned) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
		cancel()
	}
	if w, err := r.Inspect(t.Context(), br); err != nil || w.Outcome != 0 || w.Prepared || !strings.Contains(w.Detail, "restart the server") {
		t.Errorf("inspected: %+v, %v", w, err)
	}
	held, err := r.InspectLocks(t.Context())
	check(t, err)
	ghosts := map[string]bool{}
	for _, h := range held {
		if h.Orphaned {
			ghosts[h.XID] = true
			wantLines(t, "locks", h.Locks, "2 rows changed")
		}
	}
	for _, l := range lost {
		if !ghosts[l.branch.XID] {
			t.Errorf("%s is not in the list: %v", l.branch.XID, held)
		}
	}
	found := false
	for _, d := range r.CheckHealth(t.Context()) {
		found = found || d.Subject == "lost branches" && d.Level == participant.Failure && strings.Contains(d.Message, br.XID)
	}
	if !found {
		t.Error("the examination does not see it")
	}

	check(t, s.Kill(t.Context()))
	check(t, s.Start(t.Context()))
	for _, l := range lost {
		var res participant.Result
		waittest.NoError(t, func() (err error) {
			res, err = r.Commit(t.Context(), l.branch)
			return err
		})
		wantEnd(t, res, nil, participant.Committed)
		if n := bank.balance(t, l.branch.XID); n != 1 {
			t.Errorf("%s is not committed", l.branch.XID)
		}
	}
	bank.wantNothingLeft(t, r)
}
