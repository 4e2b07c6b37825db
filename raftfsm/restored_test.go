package raftfsm

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/txmgr/txmgr/txn/machine"
)

// restored is the state in testdata/snapshot-7.golden, which is that of snapshot-5 after a restore and a resume.
func restored() (machine.Header, []machine.Transaction) {
	h, txs := small()
	h.Incarnation, h.RecoveryPaused = 301, false
	txs[0].BeforeRestore, txs[3].BeforeRestore = true, true
	return h, txs
}

// TestSnapshotAfterARestore: the form of version 7, and that it is written by a node that has read it.
func TestSnapshotAfterARestore(t *testing.T) {
	h, txs := restored()
	equalGolden(t, "snapshot-7", writtenAs(t, 7, h, slices.Values(sampleSessions()), pointers(txs)))
	m, err := readSnapshot(bytes.NewReader(golden(t, "snapshot-7")))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, m, h, txs)
	again := image(t, m)
	if again[len(magic)] != 7 {
		t.Errorf("written again in version %d, which loses the mark", again[len(magic)])
	}
	if m, err = readSnapshot(bytes.NewReader(again)); err != nil {
		t.Fatal(err)
	}
	holds(t, m, h, txs)
	flipsAndCuts(t, golden(t, "snapshot-7"))
}

// TestMarkIsRefusedInOtherVersions: an earlier version has no room for the mark, and one that has it is damaged.
func TestMarkIsRefusedInOtherVersions(t *testing.T) {
	data := golden(t, "snapshot-7")
	for _, version := range []byte{5, 6} {
		h, txs := restored()
		plain := writtenAs(t, version, h, slices.Values(sampleSessions()), pointers(txs))
		m, err := readSnapshot(bytes.NewReader(plain))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := m.Get(txs[0].ID); got.BeforeRestore {
			t.Errorf("version %d has the mark", version)
		}
		var got machine.Transaction
		r := newReader(appendTransaction(nil, &txs[0], restoredVersion))
		if r.transaction(&got, version); !errors.Is(r.err, ErrCorrupt) {
			t.Errorf("version %d, with the mark: %+v", version, got)
		}
	}
	data[len(magic)] = restoredVersion + 1
	if _, err := readSnapshot(bytes.NewReader(data)); !errors.Is(err, ErrUnknownVersion) {
		t.Error(err)
	}
}
