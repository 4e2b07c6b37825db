package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

// typed are texts that would end a transaction, with the words that the error names.
var typed = map[string]string{
	"COMMIT":                                "COMMIT",
	" /* x /* y */ */ commit ":              "COMMIT",
	"-- done\nCommit;":                      "COMMIT",
	"END":                                   "END",
	"ABORT":                                 "ABORT",
	"ROLLBACK":                              "ROLLBACK",
	"rollback work and chain":               "ROLLBACK",
	"COMMIT AND CHAIN":                      "COMMIT",
	"BEGIN":                                 "BEGIN",
	"start  transaction":                    "START TRANSACTION",
	"PREPARE TRANSACTION 'x'":               "PREPARE TRANSACTION",
	"COMMIT PREPARED 'x'":                   "COMMIT",
	"SET TRANSACTION READ ONLY":             "SET TRANSACTION",
	"SELECT ';', E'\\';', $a$;$a$; COMMIT":  "COMMIT",
	"UPDATE account SET balance = 0;COMMIT": "COMMIT",
	";;END":                                 "END",
	"CREATE TABLE t (); COMMIT":             "COMMIT",
	"CREATE VIEW begin AS SELECT 1 AS atomic; SELECT 1; END":                             "END",
	"CREATE FUNCTION f(begin atomic) RETURNS int LANGUAGE sql AS 'SELECT 1'; COMMIT":     "COMMIT",
	"CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; ROLLBACK":    "ROLLBACK",
	"CREATE PROCEDURE p() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END AS end; END;END": "END",
	"SELECT 1; -- x\rCOMMIT":                "COMMIT",
	"SELECT E'a'\n'\\' || '; COMMIT; --'":   "COMMIT",
	"SET LOCAL TRANSACTION READ WRITE":      "SET TRANSACTION",
	"SET TRANSACTION SNAPSHOT '00000003-1'": "SET TRANSACTION SNAPSHOT",
}

// TestTxControlIsRefused: the statement is not sent, and the transaction continues and commits.
func TestTxControlIsRefused(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		ptx, err := s.bank.db.Tx(ctx, tx)
		check(t, err)
		nested, err := ptx.Begin(ctx)
		check(t, err)
		for sql, words := range typed {
			var batch pgx.Batch
			batch.Queue(sql)
			_, errExec := s.bank.db.Exec(ctx, tx, sql)
			_, errQuery := s.bank.db.Query(ctx, tx, sql)
			_, errPrepare := ptx.Prepare(ctx, "", sql)
			_, errNested := nested.Exec(ctx, sql)
			for how, err := range map[string]error{
				"exec": errExec, "query": errQuery, "row": s.bank.db.QueryRow(ctx, tx, sql).Scan(), "prepare": errPrepare,
				"batch": ptx.SendBatch(ctx, &batch).Close(), "nested": errNested,
			} {
				if !errors.Is(err, txn.ErrManaged) || !strings.Contains(err.Error(), words+" was not sent") {
					t.Errorf("%s %q: %v", how, sql, err)
				}
			}
		}
		return nested.Commit(ctx)
	})
	check(t, err)
	s.want(t, 70, 130)
}

// TestOtherStatementsAreNotRefused: what only looks like an end is sent.
func TestOtherStatementsAreNotRefused(t *testing.T) {
	for _, sql := range []string{
		"", ";", "SELECT 1", "(SELECT 1)", "SELECT 'x; COMMIT'", `SELECT 1 AS "; COMMIT"`, "SELECT $$; COMMIT$$", "SELECT 1 -- ; COMMIT",
		"SELECT 1 /* ; /* x */ COMMIT */", "ROLLBACK TO SAVEPOINT x", "ROLLBACK WORK TO x", "SAVEPOINT commit", "PREPARE x AS SELECT 1",
		"SET search_path = x", "SELECT $1; SELECT 2", "WITH commit AS (SELECT 1) SELECT * FROM commit", "committed", "commit_all()",
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END", "SELECT E'a\\'; COMMIT'", "RESET ALL", "SET SESSION AUTHORIZATION x",
		"CREATE OR REPLACE PROCEDURE p(begin int) BEGIN /* */ ATOMIC SELECT 1 AS end; SELECT CASE WHEN true THEN 1 END; END; SELECT 1",
		"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)",
	} {
		if err := sqltext.RejectTxControl(sql, false, false); err != nil {
			t.Errorf("%q: %v", sql, err)
		}
	}
}

// past runs texts, with | between them, on the branch's connection itself, as a library may do.
func past(ctx context.Context, db *DB, tx *txn.Tx, sql string) error {
	ptx, err := db.Tx(ctx, tx)
	if err != nil {
		return err
	}
	for text := range strings.SplitSeq(sql, "|") {
		_, failed := ptx.Conn().PgConn().Exec(ctx, text).ReadAll()
		err = errors.Join(err, failed)
	}
	return err
}

// TestEndedByApplicationIsNeverRolledBack: the transaction was ended on the connection itself. The error
// permits no repetition, every other branch is rolled back, and the coordinator determines the
// branch's outcome.
func TestEndedByApplicationIsNeverRolledBack(t *testing.T) {
	const work = "UPDATE account SET balance = balance - 1 WHERE id = 'alice'"
	for name, c := range map[string]struct {
		sql     string
		options pgx.TxOptions
		ending  participant.BranchOutcome // of the branch
		says    string
		bank    int64
	}{
		"commit":                                              {"COMMIT", pgx.TxOptions{}, participant.Committed, "it is committed (pg_xact_status(", 70},
		"commit and chain":                                    {"COMMIT AND CHAIN", pgx.TxOptions{}, participant.Committed, "it is committed (pg_xact_status(", 70},
		"commit and work":                                     {"COMMIT; " + work, pgx.TxOptions{}, participant.Committed, "it is committed (pg_xact_status(", 69},
		"commit, chained work that failed":                    {"COMMIT AND CHAIN; " + work + "; SELECT 1/0", pgx.TxOptions{}, participant.Committed, "it is committed (pg_xact_status(", 70},
		"rollback":                                            {"ROLLBACK", pgx.TxOptions{}, participant.RolledBack, "it is rolled back (pg_xact_status(", 100},
		"rollback and work":                                   {"ROLLBACK; " + work, pgx.TxOptions{}, participant.RolledBack, "each statement after that was committed at once", 99},
		"rollback, chained work":                              {"ROLLBACK AND CHAIN; " + work + "; COMMIT AND CHAIN", pgx.TxOptions{}, participant.RolledBack, "each statement after that was committed at once", 99},
		"rollback, and another is begun":                      {"ROLLBACK|" + work + "|BEGIN; SELECT pg_current_xact_id()", pgx.TxOptions{}, participant.RolledBack, "each statement after that was committed at once", 99},
		"rollback, and another cannot be prepared":            {"ROLLBACK|" + work + "|BEGIN; SELECT pg_current_xact_id(); CREATE TEMP TABLE x ()", pgx.TxOptions{}, participant.RolledBack, "each statement after that was committed at once", 99},
		"it fails":                                            {"SELECT 1/0", pgx.TxOptions{}, participant.RolledBack, "cannot be proved", 100},
		"rollback, and another fails":                         {"ROLLBACK|" + work + "|BEGIN|SELECT 1/0", pgx.TxOptions{}, participant.RolledBack, "cannot be proved", 99},
		"rollback, chained work, and it fails":                {"ROLLBACK AND CHAIN; " + work + "; COMMIT AND CHAIN; SELECT 1/0", pgx.TxOptions{}, participant.RolledBack, "cannot be proved", 99},
		"rollback, and the connection is lost":                {"ROLLBACK|" + work + "|BEGIN|SELECT pg_terminate_backend(pg_backend_pid()) -- 1/0", pgx.TxOptions{}, participant.RolledBack, "cannot be proved", 99},
		"a database that is read, and another fails":          {"COMMIT|" + work + "|BEGIN|SELECT 1/0", pgx.TxOptions{AccessMode: pgx.ReadOnly}, participant.RolledBack, "cannot be proved", 99},
		"a database that is read, and its settings are reset": {"RESET ALL", pgx.TxOptions{AccessMode: pgx.ReadOnly}, participant.RolledBack, "or its settings were reset", 100},
		"a database that is read, and committed":              {"COMMIT|" + work + "|BEGIN READ ONLY", pgx.TxOptions{AccessMode: pgx.ReadOnly}, participant.RolledBack, "the branch is read-only", 99},
	} {
		ways := []string{"commit"}
		if slices.Contains([]string{"commit", "rollback and work", "rollback, and another is begun", "rollback, and another fails", "rollback, and the connection is lost"}, name) {
			ways = append(ways, "error", "rollback", "one phase")
		}
		for _, way := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				s := newShops(t)
				if s.bank.db.TxOptions = c.options; way == "one phase" {
					s.bank.withMarkers(t)
				}
				boom := errors.New("boom")
				err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					if c.options.AccessMode == "" {
						if _, err := s.bank.db.Exec(ctx, tx, "UPDATE account SET balance = balance - 30"); err != nil {
							return err
						}
					}
					if way != "one phase" {
						_, err := s.shopDB.Exec(ctx, tx, "UPDATE account SET balance = balance + 30")
						check(t, err)
					}
					if err := past(ctx, s.bank.db, tx, c.sql); err != nil && !strings.Contains(c.sql, "1/0") {
						return err
					}
					switch way {
					case "error":
						return boom
					case "rollback":
						if err := tx.Rollback(ctx, "changed my mind"); !errors.Is(err, txn.ErrEndedByApplication) {
							t.Errorf("rollback: %v", err)
						}
					}
					return nil
				})
				if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) || txn.CodeOf(err) != txn.CodeInDoubt {
					t.Errorf("code %s: %v", txn.CodeOf(err), err)
				} else if !strings.Contains(err.Error(), "bank: ") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it does not say %q: %v", c.says, err)
				}
				if way == "error" && !errors.Is(err, boom) {
					t.Errorf("not the function's error: %v", err)
				}
				if _, err := s.Commit(t.Context(), s.Last(), txn.CommitRequest{}); !errors.Is(err, txn.ErrEndedByApplication) && !(way == "one phase" && errors.Is(err, txn.ErrConflict)) || errors.Is(err, txn.ErrRolledBack) {
					t.Errorf("another application gets %v", err)
				}
				s.want(t, c.bank, 100)
				b := s.Branch(s.Last(), 1)
				r, err := s.bank.opened(t, nil).Rollback(t.Context(), b)
				wantEnd(t, r, err, c.ending)
			})
		}
	}
}

// TestNothingIsSentAfterAnEndByTheApplication: further statements would be committed one by one.
func TestNothingIsSentAfterAnEndByTheApplication(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		ptx, err := s.bank.db.Tx(ctx, tx)
		check(t, err)
		_, err = ptx.Conn().Prepare(ctx, "over", "ROLLBACK")
		check(t, err)
		if _, err := s.bank.db.Exec(ctx, tx, "over"); !errors.Is(err, txn.ErrEndedByApplication) {
			t.Errorf("the statement that ended it: %v", err)
		}
		const work = "UPDATE account SET balance = 0"
		var batch pgx.Batch
		batch.Queue(work)
		_, errExec := s.bank.db.Exec(ctx, tx, work)
		_, errQuery := s.bank.db.Query(ctx, tx, work)
		_, errBegin := ptx.Begin(ctx)
		_, errCopy := ptx.CopyFrom(ctx, pgx.Identifier{"account"}, []string{"id", "balance"}, pgx.CopyFromRows([][]any{{"x", 1}}))
		for how, err := range map[string]error{
			"exec": errExec, "query": errQuery, "row": s.bank.db.QueryRow(ctx, tx, work+" RETURNING id").Scan(new(string)),
			"batch": ptx.SendBatch(ctx, &batch).Close(), "begin": errBegin, "copy": errCopy,
		} {
			if !errors.Is(err, txn.ErrEndedByApplication) {
				t.Errorf("%s: %v", how, err)
			}
		}
		return nil
	})
	if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
		t.Error(err)
	}
	s.want(t, 100, 100)
}

// TestEndByTheApplicationWhoseAnswerIsLost: the transaction is committed on the connection itself, and the
// connection is lost before the answer. It must not be reported as rolled back. If the
// application was not given the connection, this cannot happen, and a lost connection is a
// rollback.
func TestEndByTheApplicationWhoseAnswerIsLost(t *testing.T) {
	for _, returns := range []error{nil, errors.New("boom")} {
		for _, typed := range []string{"COMMIT; ", "ROLLBACK; BEGIN; UPDATE account SET balance = balance - 30; COMMIT; ", ""} {
			s := newShops(t)
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				check(t, s.move(ctx, tx, 30))
				const lost = "SELECT pg_terminate_backend(pg_backend_pid())"
				var err error
				if typed == "" {
					_, err = s.bank.db.Exec(ctx, tx, lost)
				} else {
					err = past(ctx, s.bank.db, tx, typed+lost)
				}
				if err == nil {
					t.Error("the connection was not lost")
				}
				return returns
			})
			name := typed + "returns " + fmt.Sprint(returns)
			switch {
			case typed == "" && !errors.Is(err, txn.ErrRolledBack):
				t.Errorf("%s: %v", name, err)
			case typed != "" && (!errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) || !strings.Contains(err.Error(), "connection was lost")):
				t.Errorf("%s: got %v", name, err)
			}
			if typed == "" {
				s.want(t, 100, 100)
			} else {
				s.want(t, 70, 100)
			}
		}
	}
}

// TestPrepareByTheApplicationIsReported: the error has the name under which the work is prepared.
func TestPrepareByTheApplicationIsReported(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		return past(ctx, s.bank.db, tx, "PREPARE TRANSACTION 'mine'")
	})
	if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) || !strings.Contains(err.Error(), `prepared under the name "mine"`) {
		t.Error(err)
	}
	s.bank.exec(t, "ROLLBACK PREPARED 'mine'")
	s.want(t, 100, 100)
}

// TestFailureWithoutTheConnectionIsARollback: it is known which transaction failed if the
// application was not given the connection itself, or if the failure was rolled back to a
// savepoint.
func TestFailureWithoutTheConnectionIsARollback(t *testing.T) {
	for name, fails := range map[string]func(context.Context, pgx.Tx) error{
		"a statement": func(ctx context.Context, ptx pgx.Tx) error {
			_, err := ptx.Exec(ctx, "SELECT 1/0")
			return err
		},
		"on the connection, in a savepoint": func(ctx context.Context, ptx pgx.Tx) error {
			return pgx.BeginFunc(ctx, ptx, func(nested pgx.Tx) error {
				_, err := nested.Conn().Exec(ctx, "SELECT 1/0")
				return err
			})
		},
	} {
		for _, swallow := range []bool{false, true} {
			s := newShops(t)
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				check(t, s.move(ctx, tx, 30))
				ptx, err := s.bank.db.Tx(ctx, tx)
				check(t, err)
				if err = fails(ctx, ptx); err == nil {
					t.Fatal("it does not fail")
				}
				if swallow && strings.Contains(name, "savepoint") {
					return errors.New("changed my mind")
				} else if swallow {
					return nil
				}
				return err
			})
			if !errors.Is(err, txn.ErrRolledBack) || errors.Is(err, txn.ErrEndedByApplication) {
				t.Errorf("%s, swallowed %v: %v", name, swallow, err)
			}
			s.want(t, 100, 100)
		}
	}
}

// TestConnOfRowsExposesTheConnection: rows give access to the connection, too.
func TestConnOfRowsExposesTheConnection(t *testing.T) {
	s := newShops(t)
	err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		check(t, s.move(ctx, tx, 30))
		rows, err := s.bank.db.Query(ctx, tx, "SELECT 1")
		check(t, err)
		rows.Close()
		for _, text := range []string{"ROLLBACK", "UPDATE account SET balance = 50", "BEGIN", "SELECT 1/0"} {
			_, err = rows.Conn().PgConn().Exec(ctx, text).ReadAll()
		}
		return err
	})
	if !errors.Is(err, txn.ErrEndedByApplication) || errors.Is(err, txn.ErrRolledBack) {
		t.Error(err)
	}
	s.want(t, 50, 100)
}

// TestResetAllIsRefusedIfReadOnly: RESET ALL would reset the mark. A branch that writes has a
// number instead.
func TestResetAllIsRefusedIfReadOnly(t *testing.T) {
	for _, mode := range []pgx.TxAccessMode{"", pgx.ReadOnly} {
		s := newShops(t)
		s.bank.db.TxOptions.AccessMode = mode
		err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := s.bank.db.Exec(ctx, tx, "SELECT 1; reset all")
			if refused := errors.Is(err, txn.ErrManaged) && strings.Contains(err.Error(), "RESET ALL was not sent"); refused != (mode == pgx.ReadOnly) {
				t.Errorf("mode %q: %v", mode, err)
			}
			_, err = s.bank.db.Exec(ctx, tx, "RESET work_mem")
			return err
		})
		check(t, err)
	}
}

// TestSnapshotAsAdvised: the advice in the refusal of SET TRANSACTION SNAPSHOT works.
func TestSnapshotAsAdvised(t *testing.T) {
	for _, mode := range []pgx.TxAccessMode{"", pgx.ReadOnly} {
		s := newShops(t)
		other, err := s.bank.pool.Begin(t.Context())
		check(t, err)
		var snapshot string
		check(t, other.QueryRow(t.Context(), "SELECT pg_export_snapshot()").Scan(&snapshot))
		s.bank.exec(t, "UPDATE account SET balance = 1")

		set := "SET TRANSACTION SNAPSHOT '" + snapshot + "'"
		db := New("bank", s.bank.pool)
		db.TxOptions = pgx.TxOptions{AccessMode: mode, BeginQuery: "BEGIN ISOLATION LEVEL REPEATABLE READ; " + set}
		err = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			if _, err := db.Exec(ctx, tx, set); !errors.Is(err, txn.ErrManaged) || !strings.Contains(err.Error(), "TxOptions.BeginQuery") {
				t.Errorf("mode %q: %v", mode, err)
			}
			var balance int
			err := db.QueryRow(ctx, tx, "SELECT balance FROM account").Scan(&balance)
			if balance != 100 {
				t.Errorf("mode %q: the balance is %d, which the snapshot does not see", mode, balance)
			}
			return err
		})
		check(t, err)
		check(t, other.Rollback(t.Context()))
	}
}
