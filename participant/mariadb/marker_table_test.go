package mariadb

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// TestLatePrepareIsRefused: once the coordinator has reported a branch as rolled back, it cannot
// begin any more.
func TestLatePrepareIsRefused(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	for name, do := range map[string]verb{"rollback": r.Rollback, "settle": r.ResolveOutcome} {
		conn, err := bank.pool.Conn(t.Context())
		check(t, err)
		origin, err := markertable.Table(markertable.Default).Ensure(t.Context(), bank.pool)
		check(t, err)
		s, err := bank.db.identify(t.Context(), conn, markertable.Default)
		check(t, err)
		check(t, conn.Close())
		if s.Table != origin {
			t.Errorf("session reference %v, table %s", s, origin)
		}
		br := newName()
		br.SessionRef = s.String() // it was enlisted, and hangs before its first statement
		res, err := do(t.Context(), br)
		wantEnd(t, res, err, participant.RolledBack)
		if _, err := bank.begin(t, bank.db, br.XID); !errors.Is(err, txn.ErrNotActive) || !strings.Contains(err.Error(), "rolled the branch back already") {
			t.Errorf("%s: begins late: %v", name, err)
		}
		for _, verb := range []verb{r.Rollback, r.ResolveOutcome, r.Commit} {
			res, err := verb(t.Context(), br)
			wantEnd(t, res, err, participant.RolledBack)
		}
	}
	bank.wantNothingLeft(t, r)
}

// TestMarkerRowDeletedManually: a marker row that is deleted manually is as if the branch had not
// committed. If commit is decided, that is a heuristic outcome; it is never a success.
func TestMarkerRowDeletedManually(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	res, err := r.Commit(t.Context(), br)
	wantEnd(t, res, err, participant.Committed)
	bank.exec(t, "DELETE FROM txmgr_branch")
	res, err = r.Commit(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)

	// The barrier: the branch can begin again, and the sweep finds it.
	br = newName()
	res, err = r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	bank.exec(t, "DELETE FROM txmgr_branch")
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('bob', 1)")
	vote, err := w.Prepare(t.Context())
	if vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	w.Release()
	list, err := r.Prepared(t.Context(), r.prefix)
	if err != nil || len(list) != 1 || list[0].XID != br.XID || list[0].Since.IsZero() || list[0].Age <= 0 || list[0].Age > time.Hour || list[0].Owner != "database "+bank.name {
		t.Errorf("the sweep sees %v, %v", list, err)
	}
	res, err = r.Rollback(t.Context(), br)
	wantEnd(t, res, err, participant.RolledBack)
	if n := bank.balance(t, "bob"); n != 0 {
		t.Errorf("bob has %d", n)
	}
}

// TestMarkerTableCreatedAgain: the rows of the old marker table are lost, which the error says, and an
// application that used the old one gets an error that says to try again.
func TestMarkerTableCreatedAgain(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	_, err := r.Commit(t.Context(), br)
	check(t, err)
	bank.exec(t, "DROP TABLE txmgr_branch")
	for name, do := range map[string]verb{"commit": r.Commit, "rollback": r.Rollback, "settle": r.ResolveOutcome} {
		if res, err := do(t.Context(), br); err == nil || !strings.Contains(err.Error(), "the table was dropped since") {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	// The application has the old table cached, for one attempt.
	if _, err := bank.begin(t, bank.db, newName().XID); err == nil || !strings.Contains(err.Error(), "was created again") {
		t.Errorf("begin: %v", err)
	}
	res, err := r.Commit(t.Context(), bank.prepared(t, "INSERT INTO account VALUES ('bob', 1)"))
	wantEnd(t, res, err, participant.Committed)

	bank.exec(t, "DROP TABLE txmgr_branch")
	if _, err := bank.begin(t, bank.db, newName().XID); errno.Of(err) != errno.NoTable {
		t.Errorf("begin: %v", err)
	}
	res, err = r.Commit(t.Context(), bank.prepared(t, "INSERT INTO account VALUES ('carol', 1)"))
	wantEnd(t, res, err, participant.Committed)
}

// TestConnectionIsNotTheRecordedOne: a branch does not begin on a connection that is not the one of its
// session reference, as behind a proxy that shares connections; in no mode of the server. The
// connection and what is known of it are discarded.
func TestConnectionIsNotTheRecordedOne(t *testing.T) {
	bank := newBank(t)
	bank.pool.SetMaxOpenConns(1)
	for _, mode := range []string{"", "TRADITIONAL", "STRICT_TRANS_TABLES", "ANSI,PIPES_AS_CONCAT"} {
		bank.exec(t, "SET sql_mode = '"+mode+"'")
		conn, err := bank.pool.Conn(t.Context())
		check(t, err)
		s, err := bank.db.identify(t.Context(), conn, markertable.Default)
		check(t, err)
		check(t, conn.Close())
		for known, ref := range bank.db.sessionRefs {
			ref.Conn++
			bank.db.sessionRefs[known] = ref
		}
		w, err := bank.begin(t, bank.db, newName().XID)
		if w != nil {
			w.Release()
		}
		if !errors.Is(err, errProxy) {
			t.Errorf("sql_mode '%s': begins with %v", mode, err)
		}
		bank.waitGone(t, s.Conn)
		w, err = bank.begin(t, bank.db, newName().XID)
		check(t, err)
		check(t, w.Rollback(t.Context()))
		w.Release()
	}
	bank.wantNothingLeft(t, bank.opened(t, nil))
}

// TestMarkerTableInAnotherDatabase: the registration does not match the application, and nothing is
// concluded from a table that the application does not write to.
func TestMarkerTableInAnotherDatabase(t *testing.T) {
	right, wrong := newBank(t), newBank(t)
	r := wrong.opened(t, nil)
	check(t, r.Check(t.Context()))
	br := newName()
	w := right.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	br.SessionRef = w.sessionRef.String()
	for name, do := range map[string]verb{"commit": r.Commit, "rollback": r.Rollback, "settle": r.ResolveOutcome} {
		if res, err := do(t.Context(), br); err == nil || !strings.Contains(err.Error(), "register the database that it uses") {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	check(t, w.Rollback(t.Context()))
	w.Release()
}

// TestTableOfAnotherOwner: a table that txmgr did not create is not touched.
func TestTableOfAnotherOwner(t *testing.T) {
	for create, why := range map[string]string{
		"CREATE TABLE txmgr_branch (id int) ENGINE=InnoDB":                                        "was not created by txmgr",
		"CREATE TABLE txmgr_branch (origin char(16) DEFAULT '0123456789abcdef') ENGINE=MyISAM":    "must have InnoDB",
		"CREATE TABLE txmgr_branch (origin char(16) DEFAULT 'x') ENGINE=InnoDB":                   "was not created by txmgr",
		"CREATE VIEW txmgr_branch AS SELECT 1 AS origin":                                          "must have InnoDB",
		"CREATE TABLE txmgr_branch (xid int, origin char(16) DEFAULT (UUID_SHORT()))":             "was not created by txmgr",
		"CREATE TABLE txmgr_branch (xid int) ENGINE=Aria COMMENT='somebody thought of it before'": "must have InnoDB",
	} {
		bank := newBank(t)
		bank.exec(t, create)
		_, errBegin := bank.begin(t, bank.db, newName().XID)
		for name, err := range map[string]error{"check": bank.opened(t, nil).Check(t.Context()), "begin": errBegin} {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %s: %v", create, name, err)
			}
		}
	}
}

// TestMarkerRowIsConfirmedDurable: the test cannot produce a row that is not on disk yet, but it can
// observe the write that puts it there.
func TestMarkerRowIsConfirmedDurable(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	w := bank.work(t, newName().XID, "INSERT INTO account VALUES ('alice', 1)")
	if _, err := w.CommitOnePhase(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Release()
	written := func() (at string) {
		check(t, bank.pool.QueryRowContext(t.Context(), "SELECT at FROM txmgr_branch").Scan(&at))
		return at
	}
	before := written()
	br := newName()
	br.XID, br.SessionRef = w.xid, w.sessionRef.String()
	res, err := r.ResolveOutcome(t.Context(), br)
	wantEnd(t, res, err, participant.Committed)
	between := written()
	wantRead(t, r, br, participant.Committed)
	if between == before || written() == between {
		t.Error("nothing was written after the row was read: it may not be on disk yet")
	}
}
