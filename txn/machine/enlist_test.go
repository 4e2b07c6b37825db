package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestLateCopyOfAnEnlistment: a connection was enlisted, lost, and another was enlisted in its
// place. A copy of the first enlistment that arrives late does not put the lost connection back
// on record, also in a state that was restored from a snapshot. An enlistment of an earlier
// release is replayed as it was.
func TestLateCopyOfAnEnlistment(t *testing.T) {
	m := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Hour, Retain: 1000}).Machine
	enlist := func(m *Machine, session string) Result {
		return m.Apply(Entry{Tick: 1, Commands: []Command{Enlist{ID: one, Branch: Branch{Participant: "bank", SessionRef: session}}}}).Results[0]
	}
	onRecord := func(m *Machine) string {
		g, _ := m.Get(one)
		return g.Branches[0].SessionRef
	}
	do(t, m, Begin{ID: one, Timeout: time.Minute, Survival: 60, Expiry: 60})
	for _, session := range []string{"first", "first", "second", "second", "third"} {
		if r := enlist(m, session); r.Code != OK || r.Branch != 1 || onRecord(m) != session {
			t.Fatalf("%s: code %d, branch %v, on record: %s", session, r.Code, r.Branch, onRecord(m))
		}
	}
	for name, m := range map[string]*Machine{"as it is": m, "restored": restored(t, m)} {
		for _, late := range []string{"first", "second"} {
			if r := enlist(m, late); r.Code != SessionRefReplaced || r.Branch != 1 || onRecord(m) != "third" {
				t.Errorf("%s: a late copy of the enlistment of the %s session: code %d, on record: %s", name, late, r.Code, onRecord(m))
			}
		}
		if r := enlist(m, "third"); r.Code != OK {
			t.Errorf("%s: the present session again: code %d", name, r.Code)
		}
	}
	again := restored(t, m)
	if fx := do(t, again, Enlist{ID: one, Branch: Branch{Participant: "bank", SessionRef: "first"}, Legacy: true}); onRecord(again) != "first" {
		t.Errorf("of an earlier release: %+v, on record: %s", fx.Results, onRecord(again))
	}
	for n := 3; ; n++ {
		r := enlist(m, fmt.Sprint("session ", n))
		if r.Code == TooMany && n == maxReplacedRefs+1 {
			break
		}
		if r.Code != OK || n > maxReplacedRefs {
			t.Fatalf("session %d: code %d", n, r.Code)
		}
	}
	do(t, m, Commit{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}}, ReportCompletion{ID: one, Reports: []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}}})
	if m.strings.Len() != 0 {
		t.Errorf("%d cells are left of a transaction that is finished", m.strings.Len())
	}
}
