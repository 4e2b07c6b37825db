package logstore

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// golden is testdata/format_v1.txt: one "name hex" a line, computed outside of this package from
// the layout in codec.go. The file is never rewritten: deployed logs have these bytes.
func golden(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/format_v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		if values[name], err = hex.DecodeString(digits); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return values
}

func TestGoldenEntries(t *testing.T) {
	bytesOf := golden(t)
	for name, l := range map[string]*raft.Log{
		"entry-noop": {Index: 1, Term: 1, Type: raft.LogNoop},
		"entry-command": {
			Index: 0x0102030405060708, Term: 0x1112131415161718, Type: raft.LogCommand, Data: []byte("commit"),
			AppendedAt: time.Unix(1_700_000_000, 123_456_789).UTC(),
		},
		"entry-extensions": {
			Index: 300, Term: 2, Type: raft.LogConfiguration, Data: []byte{0, 255}, Extensions: []byte("ext"),
			AppendedAt: time.Unix(-1, 5).UTC(),
		},
	} {
		got := appendEntry(nil, l)
		if diff := cmp.Diff(bytesOf[name], got); diff != "" {
			t.Errorf("%s: encoding changed (-golden +got):\n%s", name, diff)
		}
		var back raft.Log
		if err := decodeEntry(l.Index, bytesOf[name], &back); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(l, &back); diff != "" {
			t.Errorf("%s: decoding changed (-want +got):\n%s", name, diff)
		}
	}
}

func TestGoldenRecords(t *testing.T) {
	bytesOf := golden(t)
	format := seal(keyFormat, encodeFormat(formatOne))
	term := seal([]byte("CurrentTerm"), []byte{0, 0, 0, 0, 0, 0, 0, 7})
	for name, got := range map[string][]byte{"format": format, "stable": term} {
		if !bytes.Equal(bytesOf[name], got) {
			t.Errorf("%s: encoding changed:\ngolden %x\ngot    %x", name, bytesOf[name], got)
		}
	}
	want := record{tx: 9, entries: 5, entrySum: 0xdeadbeef, commit: 4, stable: 3, stableSum: 0x01020304}
	body, _, err := unseal(keyRecord, bytesOf["record"])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeRecord(body); got != want || err != nil {
		t.Errorf("record: %+v, %v, want %+v", got, err, want)
	}
}

func genEntry(t *rapid.T, index uint64) *raft.Log {
	l := &raft.Log{
		Index:      index,
		Term:       rapid.Uint64().Draw(t, "term"),
		Type:       raft.LogType(rapid.Byte().Draw(t, "type")),
		Data:       rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"),
		Extensions: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "ext"),
	}
	if rapid.Bool().Draw(t, "stamped") {
		l.AppendedAt = time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
	}
	return l
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genEntry(t, rapid.Uint64().Draw(t, "index"))
		prefix := []byte("prefix")
		b := appendEntry(prefix, l)
		b = b[len(prefix):]
		if len(b) != entrySize(l) {
			t.Fatalf("%d bytes, entrySize says %d", len(b), entrySize(l))
		}
		if _, err := checkEntry(l.Index, b); err != nil {
			t.Fatalf("checkEntry: %v", err)
		}
		var back raft.Log
		if err := decodeEntry(l.Index, b, &back); err != nil {
			t.Fatal(err)
		}
		if !sameEntry(l, &back) {
			t.Fatalf("(-want +got):\n%s", cmp.Diff(l, &back))
		}
		if l.AppendedAt.IsZero() != back.AppendedAt.IsZero() {
			t.Fatal("the zero time did not survive")
		}
		clear(b)
		if !sameEntry(l, &back) {
			t.Fatal("the decoded entry points into the stored bytes")
		}
	})
}

// Every single-bit error of a value, and its being found under another index, is noticed.
func TestEntryBitFlips(t *testing.T) {
	l := entry(25, 3, 300)
	b := appendEntry(nil, l)
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if err := decodeEntry(l.Index, b, new(raft.Log)); err == nil {
			t.Fatalf("bit %d flipped: not noticed", bit)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for bit := range 64 {
		if err := decodeEntry(l.Index^1<<bit, b, new(raft.Log)); err == nil {
			t.Fatalf("entry %d read under index %d: not noticed", l.Index, l.Index^1<<bit)
		}
	}
}

func TestSealBitFlips(t *testing.T) {
	key := []byte("LastVoteCand")
	b := seal(key, []byte("node-2"))
	if v, _, err := unseal(key, b); err != nil || string(v) != "node-2" {
		t.Fatalf("unseal: %q, %v", v, err)
	}
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := unseal(key, b); err == nil {
			t.Fatalf("bit %d flipped: not noticed", bit)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	if _, _, err := unseal([]byte("LastVoteTerm"), b); err == nil {
		t.Fatal("value read under another key: not noticed")
	}
}

// The decoder takes any bytes, and what it accepts is exactly what the encoder writes.
func FuzzDecodeEntry(f *testing.F) {
	for _, l := range []*raft.Log{{Index: 1}, entry(5, 1, 0), entry(7, 2, 40)} {
		b := appendEntry(nil, l)
		f.Add(l.Index, b, true)
		f.Add(l.Index, b[:len(b)-1], false)
	}
	f.Fuzz(func(t *testing.T, index uint64, b []byte, fix bool) {
		if fix && len(b) >= entryHeader { // get past the checksum
			key := indexKey(index)
			order := checksum(key[:], b[sumBytes:])
			b = append([]byte{byte(order >> 24), byte(order >> 16), byte(order >> 8), byte(order)}, b[sumBytes:]...)
		}
		var l raft.Log
		if decodeEntry(index, b, &l) != nil {
			return
		}
		again := appendEntry(nil, &l)
		if !bytes.Equal(again, b) {
			t.Fatalf("decoded and encoded again:\n%x\n%x", b, again)
		}
	})
}
