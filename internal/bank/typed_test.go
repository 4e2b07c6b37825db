package bank

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/txn"
)

// A transfer of kindTyped ends one of its branches by SQL of its own, past what the SDK
// refuses: on the connection itself in PostgreSQL, and by a block of statements on the
// managed connection in MariaDB.
const (
	typedCommit   = "COMMIT"
	typedRollback = "ROLLBACK" // and further work follows, which is committed at once
)

// drawTyped makes a transfer one of kindTyped.
func drawTyped(r *rand.Rand, tr *transfer) {
	var databases []string
	for _, p := range tr.takesPart() {
		if p != inVault {
			databases = append(databases, p)
		}
	}
	tr.TypedAt = databases[r.IntN(len(databases))]
	tr.Typed = typedCommit
	if r.IntN(2) == 0 {
		tr.Typed = typedRollback
		// None of the legs uses these accounts, so that the databases show the difference.
		free := slices.DeleteFunc(r.Perm(accounts), func(n int) bool {
			return slices.ContainsFunc(tr.at(tr.TypedAt), func(l leg) bool { return l.Account == n+1 })
		})
		tr.Late = []leg{{tr.TypedAt, free[0] + 1, -1}, {tr.TypedAt, free[1] + 1, 1}}
	}
}

// errTyped is what half of the transfers of kindTyped fail with after the statement.
var errTyped = errors.New("the work went wrong after the typed statement")

// typed ends the branch, and does the further work in a transaction of its own.
func (t *transferClient) typed(ctx context.Context, tx *txn.Tx, tr *transfer, seed uint64) error {
	var late []string
	for _, l := range tr.Late {
		late = append(late,
			fmt.Sprintf("UPDATE account SET balance = balance + %d WHERE id = %d", l.Delta, l.Account),
			fmt.Sprintf("INSERT INTO journal (tx, account, delta) VALUES ('%s', %d, %d)", tr.ID, l.Account, l.Delta))
	}
	err := t.typedSQL(ctx, tx, tr, late)
	if err == nil && seed%2 == 0 {
		err = errTyped
	}
	return err
}

func (t *transferClient) typedSQL(ctx context.Context, tx *txn.Tx, tr *transfer, late []string) error {
	if tr.TypedAt == inBank {
		own, err := t.bank.Tx(ctx, tx)
		if err != nil {
			return err
		}
		statements := []string{tr.Typed}
		if len(late) > 0 {
			statements = slices.Concat(statements, []string{"BEGIN"}, late, []string{"COMMIT"})
		}
		_, err = own.Conn().PgConn().Exec(ctx, strings.Join(statements, "; ")).ReadAll()
		return err
	}
	info, err := t.m.Get(ctx, tx.ID())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(info.Branches, func(b txn.BranchInfo) bool { return b.Participant == inSavings })
	if at < 0 {
		return fmt.Errorf("no branch of %s is on record", inSavings)
	}
	script, err := mariadb.ManualSQL(info.Branches[at].XID, "off")
	if err != nil {
		return err
	}
	statements := []string{script.Prepare[0], script.Commit + " ONE PHASE"} // XA END, XA COMMIT
	if tr.Typed == typedRollback {
		statements = slices.Concat([]string{script.Prepare[0], script.Rollback, "START TRANSACTION"}, late, []string{"COMMIT"})
	}
	conn, err := t.savings.Conn(ctx, tx)
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "BEGIN NOT ATOMIC "+strings.Join(statements, "; ")+"; END")
	return err
}

// oneSidedLegs returns what the databases contain of a transfer's typed branch: its legs, which a
// typed COMMIT committed, or what was done after a typed ROLLBACK.
func (k *databaseState) oneSidedLegs(e *entry) []leg {
	if e.Kind != kindTyped {
		return nil
	}
	return k.journal[e.ID.String()][e.TypedAt]
}

// typedDecision reports whether a typed COMMIT may have decided the transfer: its branch was the last of
// several, which decides. Recovery takes its commit record for the decision, unless the client could
// report before that its own statement had ended the branch.
func (e *entry) typedDecision() bool {
	w := e.wayOf()
	return e.Typed == typedCommit && e.TypedAt == e.Last && !w.alone() && w.decider == byBranch
}

// checkTyped describes what is wrong in the databases about a transfer of kindTyped. Its other
// branches are rolled back, unless it decided after they were prepared.
func (k *databaseState) checkTyped(e *entry) string {
	there, got := k.journal[e.ID.String()], k.oneSidedLegs(e)
	want := e.at(e.TypedAt)
	if e.Typed == typedRollback {
		want = slices.Clone(e.Late)
	}
	byAccount := func(a, b leg) int { return a.Account - b.Account }
	slices.SortFunc(want, byAccount)
	slices.SortFunc(got, byAccount)
	switch {
	case e.typedDecision() && e.outcome != outcomeOK && e.outcome != outcomeRolledBack && k.complete(e):
		return ""
	case len(got) > 0 && !slices.Equal(want, got):
		return fmt.Sprintf("%s has %v, want %v or nothing", e.TypedAt, got, want)
	case len(there) > 0 && len(got) == 0 || len(there) > 1:
		return fmt.Sprintf("another branch than that at %s is there: %v", e.TypedAt, there)
	case len(got) > 0 && e.outcome == outcomeOK && e.Typed == typedCommit && len(e.at(e.TypedAt)) == len(e.Legs) && len(e.takesPart()) == 1:
		return "" // its only branch: the decision was delegated to it, and is to commit
	case e.outcome == outcomeOK, e.outcome == outcomeOther, e.outcome == outcomeUnavailable && len(got) > 0:
		return "no caller should get that answer"
	case e.outcome == outcomeRolledBack && len(got) > 0:
		return fmt.Sprintf("it is there: %v", got)
	}
	return ""
}

// compareTyped describes what is wrong in the coordinator's state of a transfer of kindTyped; there
// tells whether the databases contain something of it, complete whether all of it.
func compareTyped(e *entry, info txn.Info, there, complete bool) string {
	committed := there && e.Typed == typedCommit
	delegated := info.State == txn.Committed && len(info.Branches) == 1 && info.Heuristic == 0
	switch {
	case committed && delegated:
		return ""
	case committed && e.TypedAt == inBank && !onRecord(e, info) && info.State == txn.RolledBack && info.Heuristic == 0 &&
		(e.outcome == outcomeEndedByApp || e.outcome == ""):
		return "" // its caller knows, unless it was killed
	case committed && e.typedDecision() && info.State == txn.Committed:
		if visible := info.Heuristic == txn.HeuristicMixed || info.Heuristic == txn.HeuristicHazard; visible == complete {
			return fmt.Sprintf("heuristic %v, all of it is in the books: %v: %+v", info.Heuristic, complete, info.Branches)
		}
		return ""
	case info.State != txn.RolledBack && len(e.Legs) > 0:
		return fmt.Sprintf("%v, in the books: %v", info.State, there)
	case !committed && info.Heuristic != 0:
		return fmt.Sprintf("heuristic %v, and no branch was committed: %+v", info.Heuristic, info.Branches)
	case committed && info.Heuristic != expectedTypedHeuristic(info):
		return fmt.Sprintf("heuristic %v, and the branch at %s was committed: %+v", info.Heuristic, e.TypedAt, info.Branches)
	}
	for _, branch := range info.Branches {
		if want := committed && branch.Participant == e.TypedAt; (branch.Heuristic == txn.HeuristicCommit) != want {
			return fmt.Sprintf("heuristic %v at %s: %+v", branch.Heuristic, branch.Participant, info.Branches)
		}
	}
	return ""
}

// onRecord reports whether the coordinator has the branch that was ended by a typed statement. It has not if the
// enlistment, which nothing waits for, came after the deadline.
func onRecord(e *entry, info txn.Info) bool {
	return slices.ContainsFunc(info.Branches, func(b txn.BranchInfo) bool { return b.Participant == e.TypedAt })
}

// expectedTypedHeuristic is the heuristic outcome of a transaction that was rolled back except for
// the branch that a typed COMMIT committed; or of one that was decided by it before another was prepared.
func expectedTypedHeuristic(info txn.Info) txn.Heuristic {
	switch {
	case info.State == txn.Committed:
		return info.Heuristic // compareTyped has checked it
	case slices.ContainsFunc(info.Branches, func(b txn.BranchInfo) bool { return b.State == txn.BranchRolledBack }):
		return txn.HeuristicMixed
	}
	return txn.HeuristicCommit
}

// expectTyped adds the heuristic outcomes of branches that a typed COMMIT committed to the expected
// ones.
func (b *testEnv) expectTyped() {
	k, err := b.readDatabases()
	if err != nil {
		b.t.Errorf("reading the books: %v", err)
		return
	}
	n := map[string]int{}
	for _, e := range b.history.all() {
		if e.Kind != kindTyped {
			continue
		}
		there := len(k.oneSidedLegs(e)) > 0
		if !there {
			n["without effect"]++
			continue
		}
		kind := e.TypedAt + ": " + e.Typed
		n[kind]++
		info, err := b.m.Get(b.t.Context(), e.ID)
		if errors.Is(err, txn.ErrNotFound) {
			n["of which the coordinator never knew"]++
		} else if err != nil {
			b.t.Errorf("%v: %v", e.ID, err)
		} else if !onRecord(e, info) {
			n["of which the coordinator knew too late"]++
		} else if e.Typed == typedCommit && (info.State == txn.RolledBack || info.Heuristic != 0) {
			p := heuristicCase{kind: "typed at " + kind, id: e.ID, place: e.TypedAt, typed: true, committed: true, want: expectedTypedHeuristic(info)}
			if at := slices.IndexFunc(info.Branches, func(b txn.BranchInfo) bool { return b.Heuristic == txn.HeuristicHazard }); at >= 0 {
				p.place = info.Branches[at].Participant
			}
			b.heuristicCases.all = append(b.heuristicCases.all, p)
		}
	}
	b.typed = n
	if late, all := n["of which the coordinator knew too late"], n[inBank+": "+typedCommit]; late > 3+all/50 {
		b.t.Errorf("the coordinator has no record of %d of %d branches that a typed COMMIT ended", late, all)
	}
	for _, place := range places[:2] {
		for _, what := range []string{typedCommit, typedRollback} {
			if n[place+": "+what] == 0 {
				b.t.Errorf("no %s typed at %s had an effect: %v", what, place, n)
			}
		}
	}
}
