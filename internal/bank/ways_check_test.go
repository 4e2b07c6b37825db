package bank

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// withinBank and acrossBoth are transfers within a database, and across two.
var (
	withinBank = []leg{{inBank, 1, -5}, {inBank, 2, 5}}
	acrossBoth = []leg{{inBank, 1, -5}, {inSavings, 2, 5}}
)

const (
	wayLog       = "several branches, by the log"
	wayAwaited   = "several branches, by the log, begin awaited"
	wayLast      = "both databases, by the last"
	wayAppointed = "PostgreSQL alone, appointed"
	wayDelegated = "PostgreSQL alone, delegated"
)

// wayEntry is the entry of a transfer, as its client reported it, or as it was left when that was killed.
func wayEntry(way, kind string, legs []leg, end transferEnd) *entry {
	return &entry{
		transfer: transfer{ID: rig.NewID(), Kind: kind, Way: way, Legs: legs},
		outcome:  end.Outcome, failed: end.Failed, decider: end.Decider,
	}
}

// stateOf is what the databases contain after the legs.
func stateOf(e *entry, legs []leg) *databaseState {
	k := &databaseState{journal: map[string]map[string][]leg{}, balances: map[string]map[int]int64{}}
	for _, place := range places {
		k.balances[place] = map[int]int64{}
		for id := 1; id <= accounts; id++ {
			k.balances[place][id] = openingBalance
		}
	}
	for _, l := range legs {
		id := e.ID.String()
		if k.journal[id] == nil {
			k.journal[id] = map[string][]leg{}
		}
		k.journal[id][l.Place] = append(k.journal[id][l.Place], l)
		k.balances[l.Place][l.Account] += l.Delta
	}
	return k
}

// TestAnswersOfEachWay plants answers that no way, or only another way, may give.
func TestAnswersOfEachWay(t *testing.T) {
	ok := func(d decider) transferEnd { return transferEnd{Outcome: outcomeOK, Decider: d} }
	end := func(outcome string) transferEnd { return transferEnd{Outcome: outcome} }
	committed, rolledBack := txn.Info{State: txn.Committed}, txn.Info{State: txn.RolledBack}
	notFound := &txn.Error{Op: "get", Err: txn.ErrNotFound}
	for _, c := range []struct {
		name string
		way  string
		legs []leg
		done []leg // what the databases contain
		end  transferEnd
		info txn.Info
		err  error
		want string // a part of what the checker says; empty: nothing is wrong
	}{
		{"committed", wayLog, acrossBoth, acrossBoth, ok(byLog), committed, nil, ""},
		{"rolled back", wayLog, acrossBoth, nil, end(outcomeRolledBack), rolledBack, nil, ""},
		{"rolled back before it began", wayLog, acrossBoth, nil, end(outcomeRolledBack), txn.Info{}, notFound, ""},
		{"in doubt and committed", wayLog, acrossBoth, acrossBoth, end(outcomeInDoubt), committed, nil, ""},
		{"in doubt and rolled back", wayLog, acrossBoth, nil, end(outcomeInDoubt), rolledBack, nil, ""},
		{"half", wayLog, acrossBoth, acrossBoth[:1], ok(byLog), committed, nil, "half of it is there"},
		{"committed without the log", wayLog, acrossBoth, acrossBoth, ok(byBranch), committed, nil, "the decision was not waited for"},
		{"lost by the log", wayLog, acrossBoth, acrossBoth, ok(byLog), txn.Info{}, notFound, "not found"},
		{"lost by the log, its client killed", wayLog, acrossBoth, acrossBoth, transferEnd{}, txn.Info{}, notFound, "not found"},
		{"lost by the log, in doubt", wayLog, acrossBoth, acrossBoth, end(outcomeInDoubt), txn.Info{}, notFound, "not found"},
		{"in doubt without a commit", wayLog, acrossBoth, nil, transferEnd{Outcome: outcomeInDoubt, Failed: true}, rolledBack, nil, "nothing can be in doubt"},
		{"lost although awaited", wayAwaited, acrossBoth, acrossBoth, ok(byLog), txn.Info{}, notFound, "not found"},
		{"the log says otherwise", wayLog, acrossBoth, acrossBoth, end(outcomeInDoubt), rolledBack, nil, "in the books: true"},

		{"appointed", wayAppointed, withinBank, withinBank, ok(byBranch), committed, nil, ""},
		{"appointed, its begin lost", wayAppointed, withinBank, withinBank, ok(byBranch), txn.Info{}, notFound, ""},
		{"appointed, its begin lost with its client", wayAppointed, withinBank, withinBank, transferEnd{}, txn.Info{}, notFound, ""},
		{"appointed, its begin lost, in doubt", wayAppointed, withinBank, withinBank, end(outcomeInDoubt), txn.Info{}, notFound, ""},
		{"appointed, delegated instead", wayAppointed, withinBank, withinBank, ok(byDelegate), committed, nil, ""},
		{"appointed, delegated instead, and lost", wayAppointed, withinBank, withinBank, ok(byDelegate), txn.Info{}, notFound, "not found"},
		{"appointed, its row missing", wayAppointed, withinBank, nil, ok(byBranch), committed, nil, "it is not there"},
		{"appointed, its row missing, its begin lost", wayAppointed, withinBank, nil, ok(byBranch), txn.Info{}, notFound, "it is not there"},
		{"appointed, half", wayAppointed, withinBank, withinBank[:1], ok(byBranch), committed, nil, "want"},
		{"appointed, rolled back with its row there", wayAppointed, withinBank, withinBank, end(outcomeRolledBack), committed, nil, "it is there"},
		{"appointed, rolled back with its row there, its begin lost", wayAppointed, withinBank, withinBank, end(outcomeRolledBack), txn.Info{}, notFound, "it is there"},
		{"appointed, the log says otherwise", wayAppointed, withinBank, withinBank, ok(byBranch), rolledBack, nil, "in the books: true"},
		{"appointed, in doubt without a commit", wayAppointed, withinBank, nil, transferEnd{Outcome: outcomeInDoubt, Failed: true}, txn.Info{}, notFound, "nothing can be in doubt"},

		{"delegated", wayDelegated, withinBank, withinBank, ok(byDelegate), committed, nil, ""},
		{"delegated, and not waited for", wayDelegated, withinBank, withinBank, ok(byBranch), committed, nil, "the decision was not waited for"},
		{"delegated, and lost", wayDelegated, withinBank, withinBank, ok(byDelegate), txn.Info{}, notFound, "not found"},
		{"by the last", wayLast, acrossBoth, acrossBoth, ok(byBranch), committed, nil, ""},
		{"by the log instead of the last", wayLast, acrossBoth, acrossBoth, ok(byLog), committed, nil, ""},
		{"by the last, only that", wayLast, acrossBoth, acrossBoth[1:], ok(byBranch), committed, nil, "half of it is there"},
		{"by the last, only the others", wayLast, acrossBoth, acrossBoth[:1], end(outcomeInDoubt), committed, nil, "half of it is there"},
		{"by the last, and lost", wayLast, acrossBoth, acrossBoth, ok(byBranch), txn.Info{}, notFound, "not found"},
		{"by the last, and lost with its client", wayLast, acrossBoth, acrossBoth, transferEnd{}, txn.Info{}, notFound, "not found"},
		{"by the last, a heuristic outcome", wayLast, acrossBoth, acrossBoth, ok(byBranch), txn.Info{State: txn.Committed, Heuristic: txn.HeuristicHazard}, nil, "heuristic"},
		{"by the last, rolled back and all there", wayLast, acrossBoth, acrossBoth, end(outcomeRolledBack), committed, nil, "it is there"},
		{"no way", "by chance", withinBank, withinBank, ok(byLog), committed, nil, "there is no way"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := wayEntry(c.way, kindPlain, c.legs, c.end)
			k := stateOf(e, c.done)
			got := k.checkTransfer(e)
			if got == "" {
				got = k.compare(e, c.info, c.err)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the checker says %q, want %q", got, c.want)
			}
		})
	}
}

// TestTypedCommitOfTheLast: recovery takes the commit record of the branch that decides for the decision, also when a
// COMMIT was typed. The heuristic outcome of the other branch has to show what that one has lost.
func TestTypedCommitOfTheLast(t *testing.T) {
	committed, mixed := txn.Info{State: txn.Committed}, txn.Info{State: txn.Committed, Heuristic: txn.HeuristicMixed}
	for _, c := range []struct {
		name, way, at string
		done          []leg
		outcome       string
		info          txn.Info
		want          string
	}{
		{"the other was prepared", wayLast, inSavings, acrossBoth, "", committed, ""},
		{"the other was not", wayLast, inSavings, acrossBoth[1:], outcomeEndedByApp, mixed, ""},
		{"the other was not, and nothing shows it", wayLast, inSavings, acrossBoth[1:], outcomeEndedByApp, committed, "heuristic"},
		{"the other was prepared, and is said to be lost", wayLast, inSavings, acrossBoth, "", mixed, "heuristic"},
		{"rolled back", wayLast, inSavings, acrossBoth, outcomeRolledBack, committed, "another branch"},
		{"not the last", wayLast, inBank, acrossBoth[:1], outcomeEndedByApp, mixed, "in the books"},
		{"not the last, all there", wayLast, inBank, acrossBoth, outcomeEndedByApp, committed, "another branch"},
		{"the log decides", wayLog, inSavings, acrossBoth[1:], outcomeEndedByApp, mixed, "in the books"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := wayEntry(c.way, kindTyped, acrossBoth, transferEnd{Outcome: c.outcome})
			e.Typed, e.TypedAt, e.Last = typedCommit, c.at, inSavings
			k := stateOf(e, c.done)
			got := k.checkTransfer(e)
			if got == "" {
				got = k.compare(e, c.info, nil)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the checker says %q, want %q", got, c.want)
			}
		})
	}
}

// TestMoneyWithinADatabase: a half that was applied within a database is found by the sum.
func TestMoneyWithinADatabase(t *testing.T) {
	for done, want := range map[int]string{2: "", 1: "has moved -5 in sum"} {
		e := wayEntry(wayAppointed, kindPlain, withinBank, transferEnd{Outcome: outcomeOK, Decider: byBranch})
		var wrong strings.Builder
		fail := func(format string, args ...any) { fmt.Fprintf(&wrong, format+"\n", args...) }
		stateOf(e, withinBank[:done]).checkBalances(fail, nil)
		if got := wrong.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%d of its legs: the checker says %q, want %q", done, got, want)
		}
	}
}

// TestProofsThatAreLeft: only those of transfers within the database that the coordinator does not
// know, and these all.
func TestProofsThatAreLeft(t *testing.T) {
	lost := wayEntry(wayAppointed, kindPlain, withinBank, transferEnd{})
	unknown := map[txn.ID]*entry{lost.ID: lost}
	own, other := txn.XID("c1", lost.ID, 1), txn.XID("c1", rig.NewID(), 1)
	for _, c := range []struct {
		place   string
		left    []string
		unknown map[txn.ID]*entry
		want    string
	}{
		{inBank, []string{own}, unknown, ""},
		{inSavings, nil, unknown, ""},
		{inBank, nil, nil, ""},
		{inBank, []string{own, other}, unknown, "of a transaction that is known"},
		{inBank, []string{"x"}, unknown, "of a transaction that is known"},
		{inSavings, []string{own}, unknown, "of a transaction that is known"},
		{inBank, nil, unknown, "its begin may still come"},
	} {
		got := fmt.Sprint(checkProofs(c.place, c.left, c.unknown))
		if c.want == "" && got != "<nil>" || !strings.Contains(got, c.want) {
			t.Errorf("%s, %q: %s, want %q", c.place, c.left, got, c.want)
		}
	}
}

// TestEveryWayIsDrawn: with branches as the way says; and a way in which nothing was committed, or
// only otherwise, is noticed.
func TestEveryWayIsDrawn(t *testing.T) {
	share, r := 0, rand.New(rand.NewPCG(1, 2))
	var entries []*entry
	for range 5000 {
		tr := draw(r, rig.NewID())
		w := tr.wayOf()
		for _, place := range []string{inBank, inSavings} {
			if alone := slices.Equal(tr.takesPart(), []string{place}); alone != slices.Equal(w.places, []string{place}) && tr.Kind != kindRead && tr.Kind != kindRemote {
				t.Fatalf("%s, %s: it takes part in %v", tr.Kind, tr.Way, tr.takesPart())
			}
		}
		entries = append(entries, &entry{transfer: tr, outcome: outcomeOK, decider: w.decider})
	}
	for _, w := range ways {
		share += w.share
	}
	if share != 100 {
		t.Errorf("the shares of the ways are %d in sum", share)
	}
	if never := countWays(entries, nil).neverCommitted(); len(never) > 0 {
		t.Errorf("never drawn: %q", never)
	}
	for _, e := range entries {
		switch e.Way {
		case wayAppointed:
			e.decider = byDelegate
		case wayDelegated:
			e.outcome = outcomeRolledBack
		}
	}
	never := countWays(entries, nil).neverCommitted()
	if len(never) != 2 || !strings.HasPrefix(never[0], wayAppointed) || !strings.HasPrefix(never[1], wayDelegated) {
		t.Errorf("%q; want %s, and %s", never, wayAppointed, wayDelegated)
	}
}
