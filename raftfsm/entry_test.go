package raftfsm

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// entryOf makes an entry of any bytes: header and checksum are good, the rest need not be.
func entryOf(count uint32, body []byte) []byte {
	buf := append(AppendHeader(nil), body...)
	buf[0] = EntryVersion
	binary.LittleEndian.PutUint64(buf[offsetTick:], 7)
	binary.LittleEndian.PutUint64(buf[offsetWall:], 8)
	binary.LittleEndian.PutUint32(buf[offsetCount:], count)
	binary.LittleEndian.PutUint32(buf[offsetSum:], crc32.Checksum(buf[offsetTick:], castagnoli))
	return buf
}

func mustEncode(t testing.TB, e machine.Entry) []byte {
	t.Helper()
	data, err := EncodeEntry(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEntryGolden(t *testing.T) {
	all := func(samples []sample) machine.Entry {
		e := machine.Entry{Tick: 123456, Wall: 1763740800123}
		for _, s := range samples {
			e.Commands = append(e.Commands, s.command)
		}
		return e
	}
	for name, want := range map[string]machine.Entry{
		"entry":      all(first),
		"entry-2":    all(second),
		"entry-3":    all(third),
		"entry-4":    all(fourth),
		"entry-5":    all(fifth),
		"entry-tick": {Tick: math.MaxUint64, Wall: -1},
	} {
		equalGolden(t, name, mustEncode(t, want))
		got, err := DecodeEntry(golden(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: decoded otherwise (-want +got):\n%s", name, d)
		}
	}
}

// TestBatch encodes as the node's proposal queue does: the commands come encoded, from many
// callers, and the tick last.
func TestBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := machine.Entry{
			Tick: genTick().Draw(t, "tick"), Wall: rapid.Int64().Draw(t, "wall"),
			Commands: rapid.SliceOfN(genCommand(), 0, 8).Draw(t, "commands"),
		}
		buf := AppendHeader(nil)
		for _, c := range want.Commands {
			fromCaller := AppendCommand(nil, c)
			buf = append(buf, fromCaller...)
		}
		if err := FinishEntry(buf, want.Tick, want.Wall, len(want.Commands)); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeEntry(buf)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("decoded otherwise (-want +got):\n%s", d)
		}
	})
}

func TestSealEntryRefuses(t *testing.T) {
	tests := []struct {
		name  string
		buf   []byte
		count int
	}{
		{"no header", nil, 0},
		{"half a header", make([]byte, HeaderSize-1), 0},
		{"over the limit", make([]byte, MaxEntry+1), 1},
		{"more commands than bytes", AppendHeader(nil), 1},
		{"less than no command", AppendHeader(nil), -1},
	}
	for _, tt := range tests {
		if err := FinishEntry(tt.buf, 1, 1, tt.count); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v; want ErrTooLarge", tt.name, err)
		}
	}
	if _, err := EncodeEntry(machine.Entry{Commands: []machine.Command{machine.RemoveParticipant{Name: string(make([]byte, MaxEntry))}}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("encode: %v; want ErrTooLarge", err)
	}
	if err := FinishEntry(make([]byte, MaxEntry), 1, 1, 0); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestDecodeEntryRefuses(t *testing.T) {
	forget := AppendCommand(nil, machine.Forget{ID: id(1), Reason: "r"})
	many := binary.AppendUvarint(nil, math.MaxUint64)
	withVersion := func(v byte) []byte {
		b := entryOf(0, nil)
		b[0] = v
		return b
	}
	cat := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	one := id(1)
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"nothing", nil, ErrCorrupt},
		{"version 0", withVersion(0), ErrCorrupt},
		{"next version", withVersion(EntryVersion + 1), ErrUnknownVersion},
		{"last version", []byte{math.MaxUint8}, ErrUnknownVersion},
		{"half a header", entryOf(0, nil)[:HeaderSize-1], ErrCorrupt},
		{"over the limit", entryOf(0, make([]byte, MaxEntry)), ErrCorrupt},
		{"one command too few", entryOf(1, cat(forget, forget)), ErrCorrupt},
		{"one command too many", entryOf(3, cat(forget, forget)), ErrCorrupt},
		{"count beyond the bytes", entryOf(math.MaxUint32, forget), ErrCorrupt},
		{"kind 0", entryOf(1, cat([]byte{0}, forget[1:])), ErrCorrupt},
		{"next kind", entryOf(1, cat([]byte{newestKind + 1}, forget[1:])), ErrUnknownKind},
		{"next kind behind a good command", entryOf(2, cat(forget, []byte{newestKind + 1, 0})), ErrUnknownKind},
		{"forgotten by nobody, in the newer form", entryOf(1, cat([]byte{kindForgetBy}, one[:], []byte{0, 1, 'r'})), ErrCorrupt},
		{"token without a reason, in the newer form", entryOf(1, cat([]byte{kindAddTokenWithReason, 1, 'i', 1, 'n', 1}, make([]byte, 32), []byte{0, 0, 0, 0})), ErrCorrupt},
		{"token with half a hash", entryOf(1, cat([]byte{kindAddToken, 1, 'i', 1, 'n', 1}, make([]byte, 16))), ErrCorrupt},
		{"token with a rate of 33 bits", entryOf(1, cat([]byte{kindAddToken, 1, 'i', 1, 'n', 1}, make([]byte, 32), binary.AppendUvarint(nil, 1<<32), []byte{0, 0})), ErrCorrupt},
		{"votes beyond the bytes, without a decision", entryOf(1, cat([]byte{kindVote}, one[:], many)), ErrCorrupt},
		{"delegated to a branch of 33 bits", entryOf(1, cat([]byte{kindDelegate}, one[:], binary.AppendUvarint(nil, 1<<32))), ErrCorrupt},
		{"string beyond the bytes", entryOf(1, cat([]byte{kindForget}, one[:], many)), ErrCorrupt},
		{"string one byte beyond", entryOf(1, forget[:len(forget)-1]), ErrCorrupt},
		{"labels beyond the bytes", entryOf(1, cat([]byte{kindBegin}, one[:], []byte{0, 2, 1, 1}, many)), ErrCorrupt},
		{"votes beyond the bytes", entryOf(1, cat([]byte{kindCommit}, one[:], many)), ErrCorrupt},
		{"flag 2", entryOf(1, cat([]byte{kindCommit}, one[:], []byte{0, 2})), ErrCorrupt},
		{"branch of 33 bits", entryOf(1, cat([]byte{kindReportHeuristicLegacy}, one[:], binary.AppendUvarint(nil, 1<<32), []byte{1, 0})), ErrCorrupt},
		{"number of 65 bits", entryOf(1, cat([]byte{kindForget}, one[:], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2})), ErrCorrupt},
		{"settings not in order", entryOf(1, []byte{kindAddParticipant, 0, 0, 2, 1, 'b', 0, 1, 'a', 0, 0}), ErrCorrupt},
		{"setting twice", entryOf(1, []byte{kindAddParticipant, 0, 0, 2, 1, 'a', 0, 1, 'a', 0, 0}), ErrCorrupt},
	}
	for _, tt := range tests {
		e, err := DecodeEntry(tt.data)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
		if e.Tick != 0 || e.Commands != nil {
			t.Errorf("%s: an entry comes with the error: %v", tt.name, e)
		}
	}
}

// TestBitFlips: the checksum covers all of an entry but its version, which has one good value.
func TestBitFlips(t *testing.T) {
	data := golden(t, "entry-3")
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			if _, err := DecodeEntry(data); !errors.Is(err, ErrCorrupt) && !(i == 0 && errors.Is(err, ErrUnknownVersion)) {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
			data[i] ^= 1 << bit
		}
	}
	if _, err := DecodeEntry(data); err != nil {
		t.Error(err)
	}
}

// TestDecodedPartsAreApart: appending to a part of an entry does not overwrite the part after it.
func TestDecodedPartsAreApart(t *testing.T) {
	want := machine.Entry{Commands: []machine.Command{
		machine.Commit{ID: id(1), Votes: make([]txn.BranchVote, 3)},
		machine.Commit{ID: id(2), Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}},
		machine.Commit{ID: id(3), Votes: []txn.BranchVote{{Branch: 2, Vote: txn.VoteNo}}},
		machine.Enlist{ID: id(4), Branch: machine.Branch{Participant: "a", Payload: []byte("b"), SessionRef: "c"}},
	}}
	data := mustEncode(t, want)
	e, err := DecodeEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(e.Commands[1].(machine.Commit).Votes, txn.BranchVote{Branch: 7})
	_ = append(e.Commands[3].(machine.Enlist).Branch.Payload, 0xff)
	if d := cmp.Diff(want, e); d != "" {
		t.Errorf("the entry was changed (-want +got):\n%s", d)
	}
	if _, err := DecodeEntry(data); err != nil {
		t.Errorf("its bytes were changed: %v", err)
	}
}

// TestDecodeMemory holds the worst entries against the factor that DecodeEntry promises.
func TestDecodeMemory(t *testing.T) {
	const size = 256 << 10
	one := id(1)
	fill := func(prefix []byte, element func(i int) []byte, suffix ...byte) []byte {
		for i := 0; len(prefix) < size; i++ {
			prefix = append(prefix, element(i)...)
		}
		return append(prefix, suffix...)
	}
	always := func(b ...byte) func(int) []byte { return func(int) []byte { return b } }
	count := func(n int, prefix ...byte) []byte { return binary.AppendUvarint(prefix, uint64(n)) }
	begin := append([]byte{kindBegin}, one[:]...)
	tests := map[string][]byte{
		"commands": entryOf(size/2, fill(nil, always(kindRemoveParticipant, 0))),
		"labels":   entryOf(1, fill(append(begin, count(size/2-64, 0, 2, 1, 1)...), always(0, 0))),
		"branches": entryOf(1, fill(append(begin, count(size/3-64, 0, 2, 1, 1, 0)...), always(0, 0, 0))),
		"votes":    entryOf(1, fill(append(append([]byte{kindCommit}, one[:]...), count(size/2-64)...), always(1, 1))),
		"settings": entryOf(1, fill(append([]byte{kindAddParticipant, 0, 0}, count(size/5)...), func(i int) []byte {
			return []byte{3, byte(i >> 16), byte(i >> 8), byte(i), 0}
		})),
	}
	for name, data := range tests {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeEntry(data)
		runtime.ReadMemStats(&after)
		factor := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(data))
		t.Logf("%s: %.1f bytes for each of %d (%v)", name, factor, len(data), err)
		if factor > 40 {
			t.Errorf("%s: %.1f bytes of memory for each byte of the entry", name, factor)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	for _, s := range samples {
		f.Add(uint32(1), AppendCommand(nil, s.command))
	}
	f.Add(uint32(len(first)), golden(f, "entry")[HeaderSize:])
	f.Add(uint32(len(second)), golden(f, "entry-2")[HeaderSize:])
	f.Add(uint32(len(samples)), golden(f, "entry-3")[HeaderSize:])
	f.Fuzz(func(t *testing.T, count uint32, body []byte) {
		e, err := DecodeEntry(entryOf(count, body))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknownKind) {
				t.Fatalf("unnamed error: %v", err)
			}
			return
		}
		again, err := DecodeEntry(mustEncode(t, e))
		if err != nil {
			t.Fatalf("encoded again: %v", err)
		}
		if d := cmp.Diff(e, again); d != "" {
			t.Fatalf("decoded otherwise (-first +again):\n%s", d)
		}
		m := machine.New()
		m.Apply(setup())
		m.Apply(e)
		if err := m.CheckInvariants(); err != nil {
			t.Fatalf("applied: %v", err)
		}
	})
}

// FuzzDecodeEntryRaw has no good checksum to begin with.
func FuzzDecodeEntryRaw(f *testing.F) {
	f.Add(golden(f, "entry"))
	f.Add(golden(f, "entry-2"))
	f.Add(golden(f, "entry-3"))
	f.Add(golden(f, "entry-tick"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := DecodeEntry(data)
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknownKind) && !errors.Is(err, ErrUnknownVersion) {
			t.Fatalf("unnamed error: %v", err)
		}
	})
}

// pair is what one transaction of two branches costs the log when the begin carries its branches.
func pair(n uint64) (begin, commit, done machine.Command) {
	var id txn.ID
	binary.BigEndian.PutUint64(id[8:], n+1)
	return machine.Begin{
			ID: id, Name: "transfer", Timeout: 30 * time.Second, Survival: 301, Expiry: 1301 + survival.Tick(n),
			Branches: []machine.Branch{{Participant: "orders", SessionRef: "4711/1763740800"}, {Participant: "stock", SessionRef: "815/1763740800"}},
		},
		machine.Commit{ID: id, ClientCompletes: true, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 2, Vote: txn.VotePrepared}}},
		machine.ReportCompletion{ID: id, Reports: []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}, {Branch: 2, State: txn.BranchCommitted}}}
}

func batch(t testing.TB, commands int) machine.Entry {
	t.Helper()
	e := machine.Entry{Tick: 1000, Wall: 1763740800123}
	for n := uint64(0); len(e.Commands) < commands; n++ {
		begin, commit, done := pair(n)
		e.Commands = append(e.Commands, begin, commit, done)
	}
	return e
}

func BenchmarkEncodeEntry(b *testing.B) {
	e := batch(b, 1024)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendHeader(buf[:0])
		for _, c := range e.Commands {
			buf = AppendCommand(buf, c)
		}
		if err := FinishEntry(buf, e.Tick, e.Wall, len(e.Commands)); err != nil {
			b.Fatal(err)
		}
	}
	perCommand(b, len(e.Commands), len(buf))
}

func BenchmarkDecodeEntry(b *testing.B) {
	e := batch(b, 1024)
	data := mustEncode(b, e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEntry(data); err != nil {
			b.Fatal(err)
		}
	}
	perCommand(b, len(e.Commands), len(data))
}

func perCommand(b *testing.B, commands, size int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*commands), "ns/command")
	b.ReportMetric(float64(size)/float64(commands), "B/command")
}
