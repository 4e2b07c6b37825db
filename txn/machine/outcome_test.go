package machine

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// complete is a finished transaction with a value in every field but the heuristic outcome,
// which was forgotten, and the mark of a restore, which such a transaction does not have.
func complete() Transaction {
	return Transaction{
		ID: testID(7), Name: "transfer", State: txn.RolledBack, Cause: txn.CauseOperator, Reason: "paid by hand, and said in more than one cell of text",
		Timeout: 30 * time.Second, Survival: 301, Expiry: 1 << 40, Began: 1763740800123, Fingerprint: 1<<64 - 1, Seq: 11, Ended: 400, ClientCompletes: true, Reenlisted: true,
		Decided: 1763740700000, DecidedTick: 300, DecidedIndex: 17, Session: txn.SessionID{1, 2, 3},
		Labels: []Label{{"app", "bank"}, {"order", ""}},
		Branches: []TransactionBranch{
			{Participant: "stock", Payload: []byte{0, 0xff}, SessionRef: "pid=1", Vote: txn.VotePrepared, State: txn.BranchHeuristic, Heuristic: txn.HeuristicCommit, Detail: "said by ann"},
			{Participant: "bank", Vote: txn.VoteReadOnly, State: txn.BranchRolledBack},
		},
	}
}

// TestOutcomeIsWhole: the belt holds all of a transaction, and so does the record that is made
// of it for a command.
func TestOutcomeIsWhole(t *testing.T) {
	want := complete()
	for i, v := 0, reflect.ValueOf(want); i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Heuristic" && name != "BeforeRestore" {
			t.Errorf("field %s is not tried", name)
		}
	}
	least := Transaction{ID: testID(8), State: txn.Committed, Seq: 12, Ended: 400}
	txs := []*Transaction{&want, &least}
	was := bootstrapped(t, "bank", "stock").header()
	was.Tick, was.Seq = 500, 20
	m, err := Restore(was, nothing, withoutError(slices.Values(txs)))
	if err != nil {
		t.Fatal(err)
	}
	if m.retained.ring.Len() != 2 || m.txs.Len() != 0 || m.strings.Len() != 0 || m.branches.Len() != 0 {
		t.Errorf("%d on the belt, %d records, %d cells, %d branches", m.retained.ring.Len(), m.txs.Len(), m.strings.Len(), m.branches.Len())
	}
	for _, want := range txs {
		got, ok := m.Get(want.ID)
		if d := cmp.Diff(*want, got); !ok || d != "" {
			t.Errorf("on the belt (-want +got):\n%s", d)
		}
		i, _ := m.loadRetained(want.ID)
		v := m.stateView()
		v.expand(i, &got)
		if d := cmp.Diff(*want, got); d != "" {
			t.Errorf("for a command (-want +got):\n%s", d)
		}
		m.flushRetained()
		o, _, _ := m.retained.ring.Get(want.ID)
		b := Summary{ID: want.ID, State: want.State, Expiry: want.Expiry, Began: want.Began, DecidedTick: want.DecidedTick}
		if got := o.summary(want.ID); got != b || o.ended() != want.Ended {
			t.Errorf("in brief %+v, ended %d; want %+v", got, o.ended(), b)
		}
		if got, _ := m.Lookup(want.ID); got != (txn.Outcome{State: want.State, Cause: want.Cause}) {
			t.Errorf("looked up: %+v", got)
		}
	}
	if err := m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// TestTimedOutOnTheBelt: the answer for a transaction that timed out does not depend on whether
// it is finished.
func TestTimedOutOnTheBelt(t *testing.T) {
	m := bootstrapped(t, "bank")
	m.Apply(Entry{Index: 1, Commands: []Command{sole, Begin{ID: testID(2), Timeout: time.Second, Expiry: 10}}})
	m.Apply(Entry{Index: 2, Tick: 10})
	if _, open := m.index[one]; !open || m.retained.ring.Len() != 1 {
		t.Fatal("one ought to be open, and the other on the belt")
	}
	for n := range uint64(2) {
		for index := range uint64(4) {
			if expiry, ok := m.TimedOut(testID(n+1), index); ok != (index == 2) || ok && expiry != survival.Tick(10) {
				t.Errorf("transaction %d by entry %d: %v, expiry %d", n+1, index, ok, expiry)
			}
		}
	}
	if _, ok := m.TimedOut(testID(3), 2); ok {
		t.Error("an unknown transaction has timed out")
	}
}
