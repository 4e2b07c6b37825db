package raftfsm

import (
	"bytes"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestSnapshotKeepsABranchEndedByTheApplication, in bytes that do not change, of a transaction that
// is not finished and of one that is.
func TestSnapshotKeepsABranchEndedByTheApplication(t *testing.T) {
	m := machine.New()
	begin := func(n byte) machine.Begin {
		return machine.Begin{ID: id(n), Name: "typed", Timeout: 1, Survival: 1, Expiry: 100, Branches: []machine.Branch{{Participant: "orders"}, {Participant: "stock"}}}
	}
	rolledBack := []txn.CompletionReport{{Branch: 1, State: txn.BranchRolledBack}, {Branch: 2, State: txn.BranchRolledBack}}
	e := setup()
	e.Commands = append(
		e.Commands, begin(1), machine.EndedByApplication{ID: id(1), Branch: 2, Reason: "COMMIT was typed"},
		begin(2), machine.EndedByApplication{ID: id(2), Branch: 1, Reason: "END"}, machine.ReportCompletion{ID: id(2), Reports: rolledBack},
	)
	for i, r := range m.Apply(e).Results {
		if r.Code != machine.OK {
			t.Fatalf("command %d: code %d", i, r.Code)
		}
	}
	equalGolden(t, "snapshot-5-byhand", image(t, m))
	restored, err := readSnapshot(bytes.NewReader(golden(t, "snapshot-5-byhand")))
	if err != nil {
		t.Fatal(err)
	}
	equalGolden(t, "snapshot-5-byhand", image(t, restored))
	for n, state := range map[byte]txn.State{1: txn.RollingBack, 2: txn.RolledBack} {
		if o, _ := restored.Lookup(id(n)); !o.EndedByApplication || o.State != state {
			t.Errorf("%d: %+v; want %v, ended by hand", n, o, state)
		}
	}
}
