package web

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

func database(t *testing.T, d Dialect) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", ""
	if d == MariaDB {
		driver, dsn = "mysql", maria.DSN(maria.NewDatabase(t, "web"))
	} else {
		dsn = pg.DSN(pg.NewDatabase(t, "web"))
	}
	db, err := sql.Open(driver, dsn)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

func onBothDialects(t *testing.T, test func(t *testing.T, db *sql.DB, d Dialect)) {
	for name, d := range map[string]Dialect{"postgres": PostgreSQL, "mariadb": MariaDB} {
		t.Run(name, func(t *testing.T) { test(t, database(t, d), d) })
	}
}

// TestManyServicesMakeTheTableAtOnce, as they do when they start together.
func TestManyServicesMakeTheTableAtOnce(t *testing.T) {
	onBothDialects(t, func(t *testing.T, db *sql.DB, d Dialect) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if n, err := SQL(db, d, "").Prune(t.Context(), "", time.Now()); n != 0 || err != nil {
					t.Error(n, err)
				}
			})
		}
		wg.Wait()
	})
}

// TestTableOfSomebodyElse: a user that may not create tables uses an existing one.
func TestTableOfSomebodyElse(t *testing.T) {
	name := pg.NewDatabase(t, "web")
	owner, err := sql.Open("pgx", pg.DSN(name))
	check(t, err)
	defer owner.Close()
	role := name + "_app"
	_, err = owner.Exec("CREATE ROLE " + role + " LOGIN; CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO " + role)
	check(t, err)
	db, err := sql.Open("pgx", pg.DSNAs(role, name))
	check(t, err)
	defer db.Close()
	store := SQL(db, PostgreSQL, "app.barrier")
	move := func() error {
		return store.Do(t.Context(), "x", func(context.Context, *sql.Tx, string, string) (string, string, error) { return statePrepared, "", nil })
	}
	if err := move(); err == nil || !strings.Contains(err.Error(), "make table app.barrier") || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("without the table: %v", err)
	}
	for _, statement := range store.Schema() {
		_, err := owner.Exec(statement)
		check(t, err)
	}
	_, err = owner.Exec("GRANT SELECT, INSERT, UPDATE, DELETE ON app.barrier TO " + role)
	check(t, err)
	check(t, move())
}

func TestBadNamesAreRefused(t *testing.T) {
	db := database(t, PostgreSQL)
	for _, table := range []string{"a b", "a;DROP TABLE x", "a.b.c", ".a", "1a", `"a"`, strings.Repeat("a", 64), "é"} {
		if _, err := SQL(db, PostgreSQL, table).Prune(t.Context(), "", time.Now()); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%q: %v", table, err)
		}
	}
	if _, err := SQL(db, 0, "").Prune(t.Context(), "", time.Now()); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("no dialect: %v", err)
	}
}

// TestTransactionThatHasEnded: if the callback has ended it, its row is not written, and no other
// work is done.
func TestTransactionThatHasEnded(t *testing.T) {
	onBothDialects(t, func(t *testing.T, db *sql.DB, d Dialect) {
		store := SQL(db, d, "")
		ends := map[string]func(tx *sql.Tx) error{
			"rollback":         func(tx *sql.Tx) error { return tx.Rollback() },
			"ignores an error": func(tx *sql.Tx) error { _, _ = tx.Exec("nonsense"); return nil },
		}
		if d == MariaDB {
			delete(ends, "ignores an error") // which ends nothing there
		}
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				xid := newBranch().XID
				prepared := func(end func(*sql.Tx) error, to string) error {
					return store.Do(t.Context(), xid, func(_ context.Context, tx *sql.Tx, _, _ string) (string, string, error) {
						return to, "", end(tx)
					})
				}
				check(t, prepared(func(*sql.Tx) error { return nil }, statePrepared))
				if err := prepared(end, stateCommitted); err == nil {
					t.Error("it was taken for committed")
				}
				var state, detail string
				check(t, db.QueryRow("SELECT state, detail FROM txmgr_barrier WHERE xid = '"+xid+"'").Scan(&state, &detail))
				if state != statePrepared || detail != "" {
					t.Errorf("state %s, detail %q", state, detail)
				}
			})
		}
	})
}

// TestKilledDatabase: a row says prepared, after a crash, if and only if the
// service said so or may have said so.
func TestKilledDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		make        func(t testing.TB) *storeFixture
		kill, start func(context.Context) error
	}{
		"postgres": {onPostgres, pg.Kill, pg.Start},
		"mariadb":  {onMariaDB, maria.Kill, maria.Start},
	} {
		t.Run(name, func(t *testing.T) {
			bed := c.make(t)
			killed := false
			r := serving(t, bed.handler(callbacks{
				prepare: func(_ context.Context, do work, _ Branch) error { return do("prepare", 1) },
				commit: func(ctx context.Context, do work, _ Branch) error {
					if err := do("commit", 1); err != nil || killed {
						return err
					}
					killed = true
					return errors.Join(c.kill(ctx), c.start(ctx))
				},
			}, Options{}), nil)
			b := newBranch()
			mustVote(t, r, b, txn.VotePrepared)
			if got, err := r.Commit(t.Context(), b); err == nil {
				t.Errorf("committed in a database that was killed: %v", got)
			}
			waittest.NoError(t, func() error { _, err := r.Commit(t.Context(), b); return err })
			wantCounts(t, bed, map[string]int64{"prepare": 1, "commit": 1})
		})
	}
}
