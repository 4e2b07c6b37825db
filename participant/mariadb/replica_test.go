package mariadb

import (
	"errors"
	"fmt"
	"testing"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant"
)

// TestPromotedReplica: the marker row is written in the branch, so it is replicated with the
// branch's data. A replica that becomes the primary has both or none, and the reported outcomes
// are true there.
func TestPromotedReplica(t *testing.T) {
	primary := testdb.OpenMariaDB(t, testdb.MariaDBConfig{Binlog: true, NoFsync: true})
	replica := testdb.OpenMariaDB(t, testdb.MariaDBConfig{Binlog: true, NoFsync: true, Settings: map[string]string{"server-id": "2", "log-slave-updates": "ON"}})
	there := openPool(t, replica.DSN(""))
	atReplica := func(statement string, args ...any) {
		t.Helper()
		_, err := there.ExecContext(t.Context(), statement, args...)
		check(t, err)
	}
	atReplica(fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = 'root', MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4", primary.Port()))
	atReplica("START SLAVE")
	bank := newBankOn(t, primary)
	catchUp := func() {
		t.Helper()
		var file string
		var at, ended int
		var ignored any
		check(t, bank.pool.QueryRowContext(t.Context(), "SHOW MASTER STATUS").Scan(&file, &at, &ignored, &ignored))
		check(t, there.QueryRowContext(t.Context(), "SELECT COALESCE(MASTER_POS_WAIT(?, ?, 30), -2)", file, at).Scan(&ended))
		if ended < 0 {
			t.Fatalf("the replica did not catch up: %d", ended)
		}
	}

	promised, unwanted := bank.prepared(t, "INSERT INTO account VALUES ('promised', 1)"), bank.prepared(t, "INSERT INTO account VALUES ('unwanted', 1)")
	done, undone := bank.prepared(t, "INSERT INTO account VALUES ('done', 1)"), bank.prepared(t, "INSERT INTO account VALUES ('undone', 1)")
	late := bank.prepared(t, "INSERT INTO account VALUES ('late', 1)")
	p := bank.open(t, nil)
	r, err := p.Commit(t.Context(), done) // and the answer is lost
	wantEnd(t, r, err, participant.Committed)
	r, err = p.Rollback(t.Context(), undone)
	wantEnd(t, r, err, participant.RolledBack)
	catchUp()
	atReplica("STOP SLAVE") // it receives nothing further
	lost, lostToo := bank.prepared(t, "INSERT INTO account VALUES ('lost', 1)"), bank.prepared(t, "INSERT INTO account VALUES ('lost too', 1)")
	for _, br := range []participant.Branch{lost, late} {
		r, err = p.Commit(t.Context(), br)
		wantEnd(t, r, err, participant.Committed)
	}
	check(t, errors.Join(p.Close(), primary.Kill(t.Context())))
	atReplica("RESET SLAVE ALL")

	promoted := *bank
	promoted.server, promoted.dsn = replica, replica.DSN(bank.name)
	promoted.pool = openPool(t, promoted.dsn)
	promoted.db = New("bank", promoted.pool)
	// Numbers of connections and transactions are assigned again.
	other := promoted.prepared(t, "INSERT INTO account VALUES ('other', 1)")
	p = promoted.open(t, nil)
	defer func() { check(t, p.Close()) }()
	for name, c := range map[string]struct {
		end  func() (participant.Result, error)
		want participant.BranchOutcome
	}{
		"prepared, to be committed":              {func() (participant.Result, error) { return p.Commit(t.Context(), promised) }, participant.Committed},
		"prepared, to be rolled back":            {func() (participant.Result, error) { return p.Rollback(t.Context(), unwanted) }, participant.RolledBack},
		"committed":                              {func() (participant.Result, error) { return p.Commit(t.Context(), done) }, participant.Committed},
		"committed, to be rolled back":           {func() (participant.Result, error) { return p.Rollback(t.Context(), done) }, participant.Committed},
		"rolled back":                            {func() (participant.Result, error) { return p.Commit(t.Context(), undone) }, participant.RolledBack},
		"committed, which was not received":      {func() (participant.Result, error) { return p.Commit(t.Context(), late) }, participant.Committed},
		"not received, to be committed":          {func() (participant.Result, error) { return p.Commit(t.Context(), lost) }, participant.RolledBack},
		"not received, to be rolled back":        {func() (participant.Result, error) { return p.Rollback(t.Context(), lostToo) }, participant.RolledBack},
		"prepared at the new primary, committed": {func() (participant.Result, error) { return p.Commit(t.Context(), other) }, participant.Committed},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := c.end()
			wantEnd(t, r, err, c.want)
		})
	}
	for id, want := range map[string]int64{"promised": 1, "unwanted": 0, "done": 1, "undone": 0, "late": 1, "lost": 0, "lost too": 0, "other": 1} {
		if n := promoted.balance(t, id); n != want {
			t.Errorf("%s has %d, want %d", id, n, want)
		}
	}
}
