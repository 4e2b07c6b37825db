package mariadb

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

// waitingManager is a coordinator that determines the outcome of a delegated branch.
type waitingManager struct {
	*shops
	t *testing.T
}

// Wait implements [txn.Manager].
func (m *waitingManager) Wait(ctx context.Context, id txn.ID, _ txn.Goal) (txn.Info, error) {
	res, err := m.bank.opened(m.t, nil).ResolveOutcome(ctx, m.Branch(id, 1))
	info := txn.Info{ID: id, State: txn.RolledBack, Cause: txn.CauseVoteNo}
	if res.Outcome == participant.Committed {
		info.State = txn.Committed
	}
	return info, err
}

// TestEndByTheApplicationWhoseAnswerIsLost: a block of statements ends the transaction, and then the
// connection is lost. The branch must not be reported as rolled back, nor, if it is the only one
// and its marker row says so, as committed. After statements that cannot have ended the
// transaction, it may be.
func TestEndByTheApplicationWhoseAnswerIsLost(t *testing.T) {
	for _, returns := range []error{nil, errors.New("boom")} {
		for text, c := range map[string]struct {
			ended bool
			bank  int64
		}{
			"XA COMMIT":   {true, 70},
			"XA ROLLBACK": {true, 99},
			"EXECUTE IMMEDIATE CONCAT('KILL ', CONNECTION_ID())": {true, 100},
			"KILL CONNECTION_ID()":                               {false, 100},
		} {
			for _, branches := range []string{"alone", "beside another"} {
				lost(t, branches+", "+text, returns, c.ended, c.bank)
			}
		}
	}
}

func lost(t *testing.T, name string, returns error, ended bool, bank int64) {
	branches, text, _ := strings.Cut(name, ", ")
	alone := branches == "alone"
	switch text {
	case "XA COMMIT":
		text = "BEGIN NOT ATOMIC XA END NAME; XA COMMIT NAME ONE PHASE; KILL CONNECTION_ID(); END"
	case "XA ROLLBACK":
		text = "BEGIN NOT ATOMIC XA END NAME; XA ROLLBACK NAME; UPDATE account SET balance = balance - 1; KILL CONNECTION_ID(); END"
	}
	s := newShops(t)
	err := txn.Run(t.Context(), &waitingManager{s, t}, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		var err error
		if alone {
			_, err = s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = balance - 30")
		} else {
			err = s.move(ctx, tx, 30)
		}
		check(t, err)
		b, err := s.bank.db.branch(ctx, tx)
		check(t, err)
		conn, err := s.bank.db.Conn(ctx, tx)
		check(t, err)
		if _, err := conn.ExecContext(ctx, strings.ReplaceAll(text, "NAME", b.name)); err == nil {
			t.Error("the connection was not lost")
		}
		return returns
	})
	if errors.Is(err, txn.ErrEndedByApplication) != ended || errors.Is(err, txn.ErrRolledBack) == ended {
		t.Errorf("%s, returns %v: got %v", name, returns, err)
	}
	s.want(t, bank, 100)
}

// TestStatementsThatCommitMayEnd: the test executes statements in a read-only transaction and in an XA
// transaction. mayEnd has to report each statement that ends the transaction, and no other,
// unless it ends the other kind.
func TestStatementsThatCommitMayEnd(t *testing.T) {
	b := newBank(t)
	for query, ends := range map[string]bool{
		"ANALYZE TABLE account": true, "ANALYZE LOCAL TABLE account": true, "analyze /* x */ no_write_to_binlog tables account": true, "/*! ANALYZE TABLE */ account": true,
		"SET PASSWORD = PASSWORD('')": true, "SET @a = 1, PASSWORD = PASSWORD('')": true, "SET DEFAULT ROLE NONE": true, "SET @a = 1, @@SESSION . `autocommit` = ON": true,
		"CHECK TABLE account": true, "FLUSH TABLES": true, "LOCK TABLES account READ": true, "CREATE TABLE another (n int)": true, "EXECUTE IMMEDIATE 'ANALYZE TABLE account'": true,
		"ANALYZE SELECT 1": false, "ANALYZE FORMAT=JSON SELECT 1": false, "ANALYZE UPDATE account SET balance = 1": false,
		"LOAD DATA INFILE '/dev/null' INTO TABLE account": false, "LOAD XML INFILE '/dev/null' INTO TABLE account": false,
		"SET autocommit_ = 1": false, "SET SESSION sql_mode = ''": false, "SET NAMES utf8mb4": false, "SET GLOBAL read_only = 0": false, "SET GLOBAL gtid_slave_pos = ''": false,
		"HANDLER account OPEN": false, "SHOW TABLES": false, "DESC account": false, "USE mysql": false, "DO GET_LOCK('x', 0)": false, "KILL QUERY 999999999": false, "VALUES (1)": false,
		"SAVEPOINT x": false, "RELEASE SAVEPOINT x": false, "EXPLAIN SELECT 1": false, "(SELECT 1)": false, "REPLACE INTO account VALUES ('alice', 1)": false, "XA RECOVER": false,
	} {
		ended := endedBy(t, b, query, "START TRANSACTION READ ONLY", "SAVEPOINT still", "SET autocommit = 0", query, "RELEASE SAVEPOINT still") ||
			endedBy(t, b, query, "XA START 'x'", "SET autocommit = 0", query, "XA END 'x'", "XA ROLLBACK 'x'")
		if ended != ends {
			t.Errorf("%s: ended %v, want %v", query, ended, ends)
		}
		if ends && !sqltext.MayEnd(query) {
			t.Errorf("%s: ends a transaction, and is not taken for one that may", query)
		}
	}
	for _, query := range []string{"ANALYZE SELECT 1", "ANALYZE FORMAT=JSON SELECT 1", "LOAD DATA INFILE '/dev/null' INTO TABLE account", "SET NAMES utf8mb4", "DESC account", "DO 1"} {
		if sqltext.MayEnd(query) {
			t.Errorf("%s: cannot end a transaction", query)
		}
	}
}

// endedBy reports whether a statement ends the transaction that the first statements begin: the
// last one fails then.
func endedBy(t *testing.T, b *bank, query string, statements ...string) (ended bool) {
	t.Helper()
	conn, err := b.pool.Conn(t.Context())
	check(t, err)
	defer func() { _ = conn.Close() }()
	defer func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }()
	for _, statement := range statements {
		_, err = conn.ExecContext(t.Context(), statement)
		if statement != query && statement != statements[len(statements)-1] && !strings.HasPrefix(statement, "XA") {
			check(t, err)
		}
	}
	return err != nil
}
