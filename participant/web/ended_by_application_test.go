package web

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// endStatement is a way in which a callback ends its local transaction after its work.
type endStatement struct {
	end       func(ctx context.Context, tx *sql.Tx) error
	work      int64 // how much of the work becomes durable: one before the end and ten after it
	committed bool  // the work before the end is committed
	fails     bool  // the callback returns an error that is not a vote
}

func statement(text string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, text); return err }
}

func endStatements(d Dialect) map[string]endStatement {
	then := func(text string, err error) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error { return errors.Join(statement(text)(ctx, tx), err) }
	}
	texts := func(err error, texts ...string) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error {
			for _, text := range texts {
				if err := statement(text)(ctx, tx); err != nil {
					return err
				}
			}
			return err
		}
	}
	const more = "UPDATE counts SET n = n + 10"
	ways := map[string]endStatement{
		"COMMIT": {statement("COMMIT"), 11, true, false},
		"COMMIT and BEGIN": {func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(statement("COMMIT")(ctx, tx), statement("BEGIN")(ctx, tx))
		}, 1, true, false},
		"COMMIT and an error": {then("COMMIT", errors.New("boom")), 1, true, true},
		"COMMIT and a no":     {then("COMMIT", No("boom")), 1, true, false},
		"Commit":              {func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, 1, true, false},
		"ROLLBACK":            {statement("ROLLBACK"), 10, false, false},

		"ROLLBACK, work and an error":        {texts(errors.New("boom"), "ROLLBACK", more), 10, false, true},
		"ROLLBACK, work and a no":            {texts(No("boom"), "ROLLBACK", more), 10, false, false},
		"ROLLBACK, work, BEGIN and an error": {texts(errors.New("boom"), "ROLLBACK", more, "BEGIN", more), 10, false, true},
		"ROLLBACK, work, BEGIN and a no":     {texts(No("boom"), "ROLLBACK", more, "BEGIN", more), 10, false, false},
		"COMMIT, work, BEGIN and a no":       {texts(No("boom"), "COMMIT", more, "BEGIN", more), 11, true, false},
	}
	if d == MariaDB {
		delete(ways, "COMMIT and BEGIN") // the barrier's update commits it with the row
		ways["ROLLBACK and BEGIN"] = endStatement{func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(statement("ROLLBACK")(ctx, tx), statement("BEGIN")(ctx, tx))
		}, 0, false, false}
		ways["CREATE TABLE"] = endStatement{statement("CREATE OR REPLACE TABLE another (n int)"), 11, true, false}
	}
	return ways
}

// TestCallbackThatEndsItsTransaction: its work is not done again, in any phase and however
// often that is repeated, and it is never reported as rolled back.
func TestCallbackThatEndsItsTransaction(t *testing.T) {
	onBothDialects(t, func(t *testing.T, db *sql.DB, d Dialect) {
		_, err := db.Exec("CREATE TABLE counts (name varchar(64) PRIMARY KEY, n bigint)")
		check(t, err)
		for name, way := range endStatements(d) {
			for _, phase := range []string{phasePrepare, phaseCommit, phaseRollback} {
				if phase != phasePrepare && strings.HasSuffix(name, " a no") {
					continue // there is no such case
				}
				t.Run(name+" in "+phase, func(t *testing.T) { testEndedByApplication(t, db, d, phase, way) })
			}
		}
	})
}

func testEndedByApplication(t *testing.T, db *sql.DB, d Dialect, phase string, way endStatement) {
	_, err := db.Exec("DELETE FROM counts")
	check(t, err)
	_, err = db.Exec("INSERT INTO counts VALUES ('n', 0)")
	check(t, err)
	does := func(ctx context.Context, tx *sql.Tx, _ Branch) error {
		if err := statement("UPDATE counts SET n = n + 1")(ctx, tx); err != nil {
			return err
		}
		err := way.end(ctx, tx)
		if err == nil {
			_ = statement("UPDATE counts SET n = n + 10")(ctx, tx) // database/sql knows that a transaction is over, if it ended it
		}
		return err
	}
	c := Callbacks[*sql.Tx]{}
	*map[string]*func(context.Context, *sql.Tx, Branch) error{phasePrepare: &c.Prepare, phaseCommit: &c.Commit, phaseRollback: &c.Rollback}[phase] = does
	r := serving(t, Handler(SQL(db, d, ""), c, Options{}), map[string]string{"list": "/prepared"})
	b := newBranch()
	if phase != phasePrepare {
		mustVote(t, r, b, txn.VotePrepared)
		b.Vote = txn.VotePrepared
	}
	attempt := map[string]func() (participant.Result, error){
		phasePrepare: func() (participant.Result, error) {
			vote, why, err := r.Prepare(t.Context(), b)
			if err != nil {
				return participant.Result{}, err
			}
			if b.Vote = vote; vote != txn.VoteEndedByApplication || why == "" {
				t.Errorf("voted %v, %q; want %v and why", vote, why, txn.VoteEndedByApplication)
			}
			return participant.Result{Outcome: participant.Unknown}, nil
		},
		phaseCommit:   func() (participant.Result, error) { return r.Commit(t.Context(), b) },
		phaseRollback: func() (participant.Result, error) { return r.Rollback(t.Context(), b) },
	}
	for i := range 3 {
		got, err := attempt[phase]()
		switch failed := i == 0 && way.fails; {
		case failed && (err == nil || !strings.Contains(err.Error(), "boom")):
			t.Errorf("%s: %v, %v; want the callback's error", phase, got, err)
		case !failed && (err != nil || got.Outcome != participant.Unknown):
			t.Errorf("%s for the %d. time: %v, %v; want an end that is not known", phase, i+1, got, err)
		}
	}
	want := participant.Unknown
	if phase == phasePrepare && way.committed {
		want = participant.Committed
	}
	if got, err := attempt[phaseRollback](); err != nil || got.Outcome != want {
		t.Errorf("rollback: %v, %v; want %v", got, err, want)
	}
	if got, err := attempt[phaseCommit](); err != nil || got.Outcome != participant.Unknown {
		t.Errorf("commit: %v, %v; want an end that is not known", got, err)
	}
	if got, err := r.Inspect(t.Context(), b); err != nil || got.Prepared || got.Outcome != participant.Unknown || !strings.Contains(got.Detail, "ended-by-application") {
		t.Errorf("inspected: %+v, %v", got, err)
	}
	if list, err := r.Prepared(t.Context(), r.prefix); err != nil || len(list) != 0 {
		t.Errorf("listed as prepared: %v, %v", list, err)
	}
	var n int64
	check(t, db.QueryRow("SELECT n FROM counts").Scan(&n))
	if n != way.work {
		t.Errorf("the work that is durable: %d; want %d, once", n, way.work)
	}
}
