package machine

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestOpenAndOldest: the values from which a quota and the retention of outcomes are read.
func TestOpenAndOldest(t *testing.T) {
	m := New()
	ids := []txn.ID{{1}, {2}, {3}, {4}}
	at := func(tick survival.Tick, commands ...Command) {
		t.Helper()
		for i, res := range m.Apply(Entry{Tick: tick, Commands: commands}).Results {
			if res.Code != OK {
				t.Fatalf("tick %d: command %d: code %d", tick, i, res.Code)
			}
		}
	}
	want := func(open int, ended survival.Tick, kept bool) {
		t.Helper()
		if got := m.UnfinishedBranches("bank"); got != open {
			t.Errorf("%d open at the bank, want %d", got, open)
		}
		if e, ok := m.OldestRetained(); e != ended || ok != kept {
			t.Errorf("oldest %d, %v; want %d, %v", e, ok, ended, kept)
		}
	}
	want(0, 0, false)
	at(1, Bootstrap{Cluster: "c1", Interval: time.Second, Retention: time.Hour, Retain: 2},
		AddParticipant{admin.Participant{Name: "bank", Kind: "ledger"}}, AddParticipant{admin.Participant{Name: "stock", Kind: "ledger"}})
	for _, id := range ids {
		at(1, Begin{ID: id, Timeout: time.Minute, Survival: 60, Expiry: 99, Branches: []Branch{{Participant: "bank"}, {Participant: "stock"}}})
	}
	want(4, 0, false)
	for i, id := range ids {
		tick := survival.Tick(10 * (i + 1))
		at(tick, Rollback{ID: id, Cause: txn.CauseClient}, ReportCompletion{ID: id, Reports: []txn.CompletionReport{{Branch: 1, State: txn.BranchRolledBack}}})
		want(3-i, []survival.Tick{0, 10, 10, 20}[i], i > 0)
		at(tick, ReportCompletion{ID: id, Reports: []txn.CompletionReport{{Branch: 2, State: txn.BranchRolledBack}}})
		at(tick)
		want(3-i, []survival.Tick{10, 10, 20, 30}[i], true)
	}
	at(40, RemoveParticipant{Name: "bank"})
	want(0, 30, true)
	if n := m.UnfinishedBranches("nobody"); n != 0 {
		t.Errorf("%d open at nobody", n)
	}
	found, _ := m.ScanRetained(RetainedCursor{}, 100, IDRange{}, func(b Summary) bool { return b.DecidedTick == 40 })
	if len(found) != 1 || found[0].ID != ids[3] {
		t.Errorf("decided at tick 40: %+v", found)
	}
}
