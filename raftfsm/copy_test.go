package raftfsm

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/txmgr/txmgr/txn/machine"
)

func copiedAsNewIncarnation(t interface{ Fatal(...any) }, data []byte) []byte {
	var next bytes.Buffer
	if err := CopyAsNewIncarnation(&next, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return next.Bytes()
}

// TestReincarnate: what every version holds lives on, but for its nodes; what may have been committed
// since, and forgotten, is marked.
func TestReincarnate(t *testing.T) {
	for name, state := range map[string]func() (machine.Header, []machine.Transaction){"snapshot": old, "snapshot-2": older, "snapshot-3": recent, "snapshot-4": withSessions, "snapshot-5": small} {
		t.Run(name, func(t *testing.T) {
			h, txs := state()
			h.Incarnation++
			h.RecoveryPaused, h.Members, h.Removed = true, nil, nil
			for i := range txs {
				txs[i].BeforeRestore = txs[i].ID != id(3) // the one that is finished without a heuristic outcome
			}
			data := copiedAsNewIncarnation(t, golden(t, name))
			m, err := readSnapshot(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			holds(t, m, h, txs)
			if !m.RecoveryPaused() || m.Incarnation() != h.Incarnation || len(m.Tokens()) != len(h.Tokens) || m.Removed("n_00") {
				t.Errorf("held %v, incarnation %d, %d tokens", m.RecoveryPaused(), m.Incarnation(), len(m.Tokens()))
			}
			h.Incarnation++
			if m, err = readSnapshot(bytes.NewReader(copiedAsNewIncarnation(t, data))); err != nil {
				t.Fatal(err)
			}
			holds(t, m, h, txs)
		})
	}
	m := many(t)
	again, err := readSnapshot(bytes.NewReader(copiedAsNewIncarnation(t, image(t, m))))
	if err != nil {
		t.Fatal(err)
	}
	if c := again.Counts(); c != m.Counts() {
		t.Errorf("%+v; before %+v", c, m.Counts())
	}
}

// TestReincarnateRefuses: of a damaged snapshot nothing is made that can be restored.
func TestReincarnateRefuses(t *testing.T) {
	data := golden(t, "snapshot-5")
	for i := range data {
		for what, damaged := range map[string][]byte{"cut": data[:i], "flipped": append(append(bytes.Clone(data[:i]), data[i]^4), data[i+1:]...)} {
			var next bytes.Buffer
			if err := CopyAsNewIncarnation(&next, bytes.NewReader(damaged)); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknownVersion) {
				t.Fatalf("%s at byte %d: %v", what, i, err)
			}
			if _, err := readSnapshot(&next); err == nil {
				t.Fatalf("%s at byte %d: what was made of it can be restored", what, i)
			}
		}
	}
	full := errors.New("disk full")
	if err := CopyAsNewIncarnation(failingWriter{full}, bytes.NewReader(data)); !errors.Is(err, full) {
		t.Error(err)
	}
	newer := append([]byte(magic), restoredVersion+1)
	if err := CopyAsNewIncarnation(io.Discard, bytes.NewReader(newer)); !errors.Is(err, ErrUnknownVersion) {
		t.Error(err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestPeek(t *testing.T) {
	want, _ := small()
	want.Audit = nil
	data := golden(t, "snapshot-5")
	h, whole, err := ReadHeader(iotest.OneByteReader(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, h, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("header (-want +got):\n%s", d)
	}
	if again, err := io.ReadAll(whole); err != nil || !bytes.Equal(again, data) {
		t.Errorf("the whole is another: %v", err)
	}
	if _, _, err := ReadHeader(bytes.NewReader(data[:40])); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}
