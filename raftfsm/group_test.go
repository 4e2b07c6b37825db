package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// ofGroup gives a snapshot of version 5 the form of version 6, with what the header then ends with.
func ofGroup(t testing.TB, data []byte, group ...byte) []byte {
	t.Helper()
	var out bytes.Buffer
	b := newBlockWriter(&out)
	err := b.write(append([]byte(magic), groupVersion))
	parts := blocks(data)[1:]
	for i, part := range parts[:len(parts)-1] {
		b.buf = append(b.buf, part[blockHeadSize:]...)
		if i == 0 {
			b.buf = append(b.buf, group...)
		}
		err = errors.Join(err, b.flush(part[0]))
	}
	_, n := binary.Uvarint(parts[len(parts)-1][blockHeadSize:])
	b.buf = b.sum.Sum(append(b.buf, parts[len(parts)-1][blockHeadSize:][:n]...))
	if err := errors.Join(err, b.flush(blockEnd)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSnapshotWithAGroup: the two forms of version 6, byte by byte, are version 5 and a number.
func TestSnapshotWithAGroup(t *testing.T) {
	equalGolden(t, "snapshot-6", ofGroup(t, golden(t, "snapshot-5"), 0))
	equalGolden(t, "snapshot-6-group", ofGroup(t, golden(t, "snapshot-5"), 0xac, 0x02))
}

// TestGroupZeroIsWrittenWithoutAGroup: what an upgraded leader sends can be read by a follower that is
// not upgraded yet. It knows version 5, whose bytes are in snapshot-5.golden, and no group.
func TestGroupZeroIsWrittenWithoutAGroup(t *testing.T) {
	m, err := readSnapshot(bytes.NewReader(golden(t, "snapshot-6")))
	if err != nil {
		t.Fatal(err)
	}
	h, txs := small()
	holds(t, m, h, txs)
	equalGolden(t, "snapshot-5-kept", image(t, m))
	before, err := readSnapshot(bytes.NewReader(golden(t, "snapshot-5")))
	if err != nil || before.Hash() != m.Hash() {
		t.Errorf("the state of version 5 is another: %v", err)
	}
	copied := copiedAsNewIncarnation(t, golden(t, "snapshot-6"))
	if !bytes.Equal(copied, copiedAsNewIncarnation(t, golden(t, "snapshot-5"))) {
		t.Error("a cluster that is restored from version 6 is another than one from version 5")
	}
}

// TestSnapshotOfAnotherGroup is refused by all who read it, and changes no state.
func TestSnapshotOfAnotherGroup(t *testing.T) {
	data := golden(t, "snapshot-6-group")
	var restored []survival.Tick
	f := New(Config{OnRestore: func(tick survival.Tick) { restored = append(restored, tick) }})
	for name, read := range map[string]func(io.Reader) error{
		"restore":  func(r io.Reader) error { return f.Restore(io.NopCloser(r)) },
		"header":   func(r io.Reader) error { _, _, err := ReadHeader(r); return err },
		"contents": func(r io.Reader) error { _, _, err := Stream(r); return err },
		"copy":     func(r io.Reader) error { return CopyAsNewIncarnation(io.Discard, r) },
	} {
		err := read(bytes.NewReader(data))
		if !errors.Is(err, ErrOtherGroup) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "of group 300 of cluster k7q, and this release serves group 0 only") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.machine.Hash() != machine.New().Hash() || len(restored) != 0 {
		t.Errorf("the state was changed by a snapshot that was refused (OnRestore: %v)", restored)
	}
	if err := f.Restore(io.NopCloser(bytes.NewReader(golden(t, "snapshot-6")))); err != nil || len(restored) != 1 {
		t.Errorf("the next snapshot, of group 0: %v (OnRestore: %v)", err, restored)
	}
}

// TestGroupOfASnapshotIsChecked: good checksums, and a group that is none.
func TestGroupOfASnapshotIsChecked(t *testing.T) {
	whole := golden(t, "snapshot-5")
	for name, tt := range map[string]struct {
		group []byte
		want  error
	}{
		"the highest":  {binary.AppendUvarint(nil, txn.MaxGroup), ErrOtherGroup},
		"too high":     {binary.AppendUvarint(nil, txn.MaxGroup+1), ErrCorrupt},
		"missing":      {nil, ErrCorrupt},
		"cut short":    {[]byte{0xac}, ErrCorrupt},
		"and one more": {[]byte{0, 0}, ErrCorrupt},
	} {
		if _, err := readSnapshot(bytes.NewReader(ofGroup(t, whole, tt.group...))); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", name, err, tt.want)
		}
	}
	flipsAndCuts(t, golden(t, "snapshot-6"))
}
