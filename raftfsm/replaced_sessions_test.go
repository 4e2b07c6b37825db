package raftfsm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestReplacedSessionsAreKept: each branch has a list of its own, which may be empty.
func TestReplacedSessionsAreKept(t *testing.T) {
	var id txn.ID
	id[0] = 1
	want := machine.Transaction{ID: id, State: txn.Active, Branches: []machine.TransactionBranch{
		{Participant: "bank", Payload: []byte("p"), SessionRef: "third", Replaced: []string{"first", "second"}},
		{Participant: "stock", Payload: []byte("q"), SessionRef: "only"},
		{Participant: "web", Payload: []byte("r"), SessionRef: "other", Replaced: []string{"former"}},
	}}
	var got machine.Transaction
	r := newReader(appendTransaction(nil, &want, snapshotVersion))
	r.transaction(&got, snapshotVersion)
	if r.err != nil || r.remaining() != 0 {
		t.Fatalf("%v; %d bytes are left", r.err, r.remaining())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNoSettingsAreNil: a participant without settings is read as it was written.
func TestNoSettingsAreNil(t *testing.T) {
	want := admin.Participant{Name: "bank", Kind: "ledger"}
	r := newReader(appendParticipant(nil, &want))
	if got := r.participant(); r.err != nil || got.Settings != nil || !cmp.Equal(want, got) {
		t.Errorf("%+v, %v", got, r.err)
	}
}
