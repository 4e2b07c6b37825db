package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// beginMany begins n transactions with one deadline, each with a branch, and returns their ids.
func beginMany(m *Machine, n int, expiry survival.Tick) (ids []txn.ID) {
	for i := range n {
		ids = append(ids, testID(uint64(i+1)))
		m.Apply(Entry{Commands: []Command{Begin{ID: ids[i], Timeout: time.Second, Expiry: expiry, Branches: []Branch{{Participant: "bank"}}}}})
	}
	return ids
}

// TestNothingIsTakenAtTheDeadline: a command that comes with the tick of the deadline comes too
// late, also for a transaction that this entry does not move.
func TestNothingIsTakenAtTheDeadline(t *testing.T) {
	m := bootstrapped(t, "bank")
	late := beginMany(m, ExpireBatch+1, 7)[ExpireBatch]
	fx := m.Apply(Entry{Tick: 7, Commands: []Command{
		Extend{ID: late, Timeout: time.Second, Expiry: 99},
		Enlist{ID: late, Branch: Branch{Participant: "bank"}},
		Commit{ID: late, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}},
	}})
	for i, r := range fx.Results {
		if r.Code != Decided || r.State != txn.RollingBack || r.Cause != txn.CauseTimeout {
			t.Errorf("command %d at the deadline: code %s, %v, %v", i+1, codeNames[r.Code], r.State, r.Cause)
		}
	}
	if err := m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// TestRestoreKeepsWhatIsDue: a snapshot that is taken while more is due than one entry moves
// holds the rest, in its order.
func TestRestoreKeepsWhatIsDue(t *testing.T) {
	m := bootstrapped(t, "bank")
	rest := beginMany(m, ExpireBatch+100, 7)[ExpireBatch:]
	m.Apply(Entry{Tick: 7})
	if !m.Due() {
		t.Fatal("one entry has drained everything: nothing is tried here")
	}
	s := m.Snapshot()
	defer s.Release()
	r, err := Restore(s.Header(), withoutError(s.Sessions()), withoutError(s.Transactions()))
	if err != nil {
		t.Fatal(err)
	}
	if next, ok := r.Next(); !r.Due() || !ok || next != 7 {
		t.Errorf("after the restore the next deadline is %d, %v; due: %v", next, ok, r.Due())
	}
	work := r.Apply(Entry{Tick: 7}).Pending
	if len(work) != len(rest) || r.Due() {
		t.Fatalf("the entry after the restore moved %d, more due: %v; want %d", len(work), r.Due(), len(rest))
	}
	for i, id := range work {
		if id != rest[i] {
			t.Fatalf("place %d has %v; want %v", i, id, rest[i])
		}
	}
	m.Apply(Entry{Tick: 7})
	if m.Hash() != r.Hash() {
		t.Error("the restored state and the original differ")
	}
}

// TestCheckFindsUnequalIndicesInAGroup: all transactions of a group have as many invocations
// left as one that would join it, while the indices age and when the group is due.
func TestCheckFindsUnequalIndicesInAGroup(t *testing.T) {
	for _, tick := range []survival.Tick{0, 5, 7} {
		m := bootstrapped(t, "bank")
		beginMany(m, ExpireBatch+3, 7)
		m.Apply(Entry{Tick: tick})
		if err := m.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		i := m.index[testID(ExpireBatch+2)]
		m.txs.Edit(i).expiry++
		want := fmt.Sprintf("is in the group of tick 7, which %d(0) joins", 7-int64(tick))
		if err := m.CheckInvariants(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tick %d: an index with one invocation more in a group: %v; want %q", tick, err, want)
		}
	}
}
