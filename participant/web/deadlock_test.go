package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestDeadlockInACallbackThatIgnoresIt: MariaDB rolls the whole transaction back, and commits later
// statements one by one. Whether there were any is not known, so the work is not done again.
func TestDeadlockInACallbackThatIgnoresIt(t *testing.T) {
	db := database(t, MariaDB)
	store := SQL(db, MariaDB, "")
	for _, statement := range []string{"CREATE TABLE counts (name varchar(64) PRIMARY KEY, n bigint)", "INSERT INTO counts VALUES ('a', 0), ('b', 0)"} {
		_, err := db.Exec(statement)
		check(t, err)
	}
	branches := []string{newBranch().XID, newBranch().XID}
	for _, xid := range branches {
		check(t, store.Do(t.Context(), xid, func(context.Context, *sql.Tx, string, string) (string, string, error) { return statePrepared, "", nil }))
	}
	var met sync.WaitGroup
	met.Add(2)
	var wg sync.WaitGroup
	var errs [2]error
	var ended [2]bool
	for i, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			errs[i] = store.Do(t.Context(), branches[i], func(ctx context.Context, tx *sql.Tx, state, _ string) (string, string, error) {
				if ended[i] = state == stateEndedByApplication; ended[i] {
					return state, "", nil
				}
				_, err := tx.ExecContext(ctx, "UPDATE counts SET n = n + 1 WHERE name = ?", order[0])
				met.Done()
				met.Wait()
				_, _ = tx.ExecContext(ctx, "UPDATE counts SET n = n + 1 WHERE name = ?", order[1])
				return stateCommitted, "", err
			})
		})
	}
	wg.Wait()
	check(t, errors.Join(errs[0], errs[1]))
	if ended[0] == ended[1] {
		t.Fatalf("one of two that lock each other must have been rolled back: %v", ended)
	}
	for i, xid := range branches {
		var state string
		check(t, db.QueryRow("SELECT state FROM txmgr_barrier WHERE xid = ?", xid).Scan(&state))
		if want := map[bool]string{true: stateEndedByApplication, false: stateCommitted}[ended[i]]; state != want {
			t.Errorf("state %s; want %s", state, want)
		}
	}
	var a, b int
	check(t, db.QueryRow("SELECT max(CASE name WHEN 'a' THEN n END), max(CASE name WHEN 'b' THEN n END) FROM counts").Scan(&a, &b))
	if a != 1 || b != 1 {
		t.Errorf("counted %d and %d; want one of each", a, b)
	}
}

// TestErrorOfTheDatabaseIsNotAnEndByTheApplication: a callback returns the error of a deadlock, or of a duplicate
// row, or a no because of it, and does nothing after it. In MariaDB the deadlock has ended the
// transaction; in PostgreSQL the failed transaction cannot be queried after either error. All work
// was rolled back: a no is final, and a failed callback is called again. If the callback does
// further work after the deadlock, which MariaDB commits, the branch is ended by hand.
func TestErrorOfTheDatabaseIsNotAnEndByTheApplication(t *testing.T) {
	onBothDialects(t, func(t *testing.T, db *sql.DB, d Dialect) {
		_, err := db.Exec("CREATE TABLE counts (name varchar(64) PRIMARY KEY, n bigint)")
		check(t, err)
		all := []failure{{"deadlock", true, true}, {"deadlock", true, false}, {"deadlock", false, true}, {"deadlock", false, false}, {"twice", true, true}, {"twice", true, false}}
		if d == MariaDB {
			all = append(all, failure{"ignored", true, true}, failure{"ignored", false, false})
		}
		for _, f := range all {
			t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) { testFailure(t, db, d, f) })
		}
	})
}

type failure struct {
	what     string // deadlock, ignored (a deadlock, and then more work), twice
	prepared bool   // the statements have arguments
	saysNo   bool
}

func testFailure(t *testing.T, db *sql.DB, d Dialect, f failure) {
	for _, s := range []string{"DELETE FROM counts", "INSERT INTO counts VALUES ('a', 0), ('b', 0)"} {
		_, err := db.Exec(s)
		check(t, err)
	}
	exec := func(ctx context.Context, tx *sql.Tx, text, name string) (err error) {
		if f.prepared {
			_, err = tx.ExecContext(ctx, d.rebind(text), name)
		} else {
			_, err = tx.ExecContext(ctx, strings.ReplaceAll(text, "?", "'"+name+"'"))
		}
		return err
	}
	const update = "UPDATE counts SET n = n + 1 WHERE name = ?"
	branches := []participant.Branch{newBranch(), newBranch()}
	var mu sync.Mutex
	var failed []string
	var met sync.WaitGroup
	met.Add(2)
	c := Callbacks[*sql.Tx]{Prepare: func(ctx context.Context, tx *sql.Tx, b Branch) error {
		mu.Lock()
		again := len(failed) > 0 && failed[0] == b.XID
		mu.Unlock()
		one, other := "a", "b"
		if b.XID == branches[1].XID {
			one, other = other, one
		}
		err := exec(ctx, tx, update, one)
		if again {
			return err
		}
		met.Done()
		met.Wait()
		if f.what == "twice" && one == "a" {
			err = errors.Join(err, exec(ctx, tx, "INSERT INTO counts VALUES (?, 0)", "a"))
		} else if f.what != "twice" {
			err = errors.Join(err, exec(ctx, tx, update, other))
		}
		if err == nil {
			return nil
		}
		if f.what == "ignored" {
			err = errors.Join(err, exec(ctx, tx, update, "z"))
		}
		mu.Lock()
		failed = append(failed, b.XID)
		mu.Unlock()
		if f.saysNo {
			return No(err.Error())
		}
		return fmt.Errorf("boom: %w", err)
	}}
	r := serving(t, Handler(SQL(db, d, ""), c, Options{}), nil)
	var votes [2]txn.Vote
	var errs [2]error
	var wg sync.WaitGroup
	for i := range branches {
		wg.Go(func() { votes[i], _, errs[i] = r.Prepare(t.Context(), branches[i]) })
	}
	wg.Wait()
	if len(failed) != 1 {
		t.Fatalf("%v failed; want one of the two", failed)
	}
	loser := 0
	if failed[0] == branches[1].XID {
		loser = 1
	}
	if votes[1-loser] != txn.VotePrepared || errs[1-loser] != nil {
		t.Errorf("the other one voted %v, %v", votes[1-loser], errs[1-loser])
	}
	b := branches[loser]
	want := map[bool]txn.Vote{true: txn.VoteNo, false: txn.VotePrepared}[f.saysNo]
	if f.what == "ignored" {
		want = txn.VoteEndedByApplication
	}
	if !f.saysNo {
		if errs[loser] == nil || !strings.Contains(errs[loser].Error(), "boom") {
			t.Errorf("voted %v, %v; want the callback's error", votes[loser], errs[loser])
		}
	} else if votes[loser] != want || errs[loser] != nil {
		t.Errorf("voted %v, %v; want %v", votes[loser], errs[loser], want)
	}
	mustVote(t, r, b, want)
	if got, err := r.Rollback(t.Context(), b); err != nil || (got.Outcome == participant.RolledBack) != (want != txn.VoteEndedByApplication) {
		t.Errorf("rollback: %v, %v", got, err)
	}
}
