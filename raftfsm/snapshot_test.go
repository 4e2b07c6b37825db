package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// small is the state in testdata/snapshot-5.golden; its sessions are lodgers.
func small() (machine.Header, []machine.Transaction) {
	h, txs := withSessions()
	h.RolledBack = machine.ByCause{2, 3, 1, 300, 4, 5}
	return h, txs
}

// withSessions is the state in testdata/snapshot-4.golden, which is of version 4; its sessions are lodgers.
func withSessions() (machine.Header, []machine.Transaction) {
	h, txs := recent()
	h.SessionsExpired, h.Sessions = 300, len(sampleSessions())
	txs[0].Session, txs[1].Session = sessionID(1), sessionID(9)
	return h, txs
}

func sessionID(n byte) txn.SessionID { return txn.SessionID(id(n)) }

func sampleSessions() []*machine.Session {
	return []*machine.Session{
		{ID: sessionID(1), Name: "app", State: txn.SessionOpen, TTL: 16 * time.Second, Opened: 1763740800123},
		{ID: sessionID(2), State: txn.SessionExpired, TTL: time.Second, Opened: -1, Seq: 3, EndedTick: 300},
		{ID: sessionID(3), State: txn.SessionClosed, TTL: 4096 * time.Second, Seq: 7, EndedTick: 499},
	}
}

// recent is the state in testdata/snapshot-3.golden, which is of version 3.
func recent() (machine.Header, []machine.Transaction) {
	h, txs := older()
	h.Incarnation, h.RecoveryPaused, h.ResumedAt = 300, true, 1763740800456
	h.Members = []machine.Member{
		{Node: "n_01", Name: "alice", API: "https://a:7460", Version: "v1.2.3"},
		{Node: "n_02"},
	}
	h.Removed = []string{"n_00", "n_03"}
	h.Tokens = []machine.Token{
		{
			ID: "k7q2m9xa", Name: "app", Role: admin.RoleClient, Hash: [32]byte{0xff, 31: 0x01}, Rate: 300,
			Created: 1763740800123, Expires: 1763740900123, By: "ann",
		},
		{ID: "b", Name: "root", Role: admin.RoleAdmin, Hash: [32]byte{1}, Created: -1},
	}
	h.Audit = append(h.Audit, machine.AuditRecord{
		Seq: 8, Wall: 1763740800123, Tick: 500, Index: 1<<40 + 1, Action: machine.ActionAddToken, Subject: "app k7q2m9xa", By: "ann",
	})
	return h, txs
}

// older is the state in testdata/snapshot-2.golden, which is of version 2.
func older() (machine.Header, []machine.Transaction) {
	h, txs := old()
	h.Audit = []machine.AuditRecord{
		{Seq: 6, Wall: 1763740800456, Tick: 400, Index: 77, Action: machine.ActionRemoveParticipant, Subject: "gone"},
		{
			Seq: 7, Wall: -1, Tick: 499, Index: 1 << 40, Action: machine.ActionResolve, ID: id(2), Branch: 2, Outcome: txn.BranchRolledBack,
			By: "ann", Reason: "looked there",
		},
	}
	txs[1].Decided, txs[1].DecidedTick, txs[1].DecidedIndex = 1763740800789, 109, 1<<40
	txs[2].Decided, txs[2].DecidedTick, txs[2].DecidedIndex = -1, 499, 90
	return h, append(txs, machine.Transaction{
		ID: id(4), State: txn.Preparing, Timeout: time.Second, Survival: 11, Expiry: 490, Seq: 8,
		Branches: []machine.TransactionBranch{{Participant: "orders", SessionRef: "s", State: txn.BranchEnlisted, Vote: txn.VoteDelegated}},
	})
}

// old is the state in testdata/snapshot.golden, which is of version 1.
func old() (machine.Header, []machine.Transaction) {
	h := machine.Header{
		Bootstrap: machine.Bootstrap{Cluster: "k7q", Interval: 100 * time.Millisecond, Retention: time.Hour, Retain: 1000},
		Tick:      500, Seq: 9, Committed: 3, RolledBack: machine.ByCause{0: 1, txn.CauseTimeout: 1},
		Participants: []machine.Registration{
			{Participant: admin.Participant{Name: "orders", Kind: "postgres", Settings: map[string]string{"dsn": "env:ORDERS"}}},
			{Participant: admin.Participant{Name: "web", Kind: "http", CoordinatorPrepares: true}},
			{Participant: admin.Participant{Name: "gone", Kind: "ledger"}, Removed: true},
		},
	}
	txs := []machine.Transaction{
		{
			ID: id(1), Name: "transfer", State: txn.Active, Timeout: 30 * time.Second, Survival: 301, Expiry: 701,
			Began: 1763740800123, Fingerprint: 0x0123456789abcdef, Seq: 4, Labels: []machine.Label{{Key: "app", Value: "bank"}},
			Branches: []machine.TransactionBranch{
				{Participant: "orders", Payload: []byte{0, 0xff}, SessionRef: "4711/1763740800", State: txn.BranchEnlisted},
				{Participant: "web", State: txn.BranchPrepared, Vote: txn.VotePrepared},
			},
		},
		{
			ID: id(2), State: txn.Committed, Heuristic: txn.HeuristicMixed, Timeout: time.Second, Survival: 11, Expiry: 111, Began: -1,
			Fingerprint: math.MaxUint64, Seq: 2, Ended: 110, ClientCompletes: true,
			Branches: []machine.TransactionBranch{
				{Participant: "gone", State: txn.BranchCommitted, Vote: txn.VotePrepared},
				{Participant: "orders", State: txn.BranchHeuristic, Vote: txn.VotePrepared, Heuristic: txn.HeuristicRollback, Detail: "by hand"},
			},
		},
		{ID: id(3), State: txn.RolledBack, Cause: txn.CauseOperator, Reason: "stuck", Timeout: 1, Survival: 1, Expiry: 2, Seq: 9, Ended: 499},
	}
	return h, txs
}

func pointers(txs []machine.Transaction) iter.Seq[*machine.Transaction] {
	return func(yield func(*machine.Transaction) bool) {
		for i := range txs {
			if !yield(&txs[i]) {
				return
			}
		}
	}
}

func written(t testing.TB, h machine.Header, sessions iter.Seq[*machine.Session], txs iter.Seq[*machine.Transaction]) []byte {
	t.Helper()
	return writtenAs(t, snapshotVersion, h, sessions, txs)
}

func writtenAs(t testing.TB, version byte, h machine.Header, sessions iter.Seq[*machine.Session], txs iter.Seq[*machine.Transaction]) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeSnapshot(&b, version, h, withoutErrors(sessions), withoutErrors(txs)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func image(t testing.TB, m *machine.Machine) []byte {
	t.Helper()
	s := &snapshot{m.Snapshot()}
	defer s.Release()
	return writtenAs(t, s.version(), s.Header(), s.Sessions(), s.Transactions())
}

// blocks takes a snapshot apart: what precedes the blocks, and the blocks.
func blocks(data []byte) (parts [][]byte) {
	parts = append(parts, data[:len(magic)+1])
	for data = data[len(magic)+1:]; len(data) > 0; {
		n := blockHeadSize + int(binary.LittleEndian.Uint32(data[1:]))
		parts = append(parts, data[:n])
		data = data[n:]
	}
	return parts
}

// assemble makes a stream of blocks with any contents, all of whose checksums are good.
func assemble(t testing.TB, count uint64, kinds []byte, bodies ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	b := newBlockWriter(&out)
	err := b.write(append([]byte(magic), snapshotVersion))
	for i, body := range bodies {
		b.buf = append(b.buf, body...)
		err = errors.Join(err, b.flush(kinds[i]))
	}
	b.buf = b.sum.Sum(binary.AppendUvarint(b.buf, count))
	if err := errors.Join(err, b.flush(blockEnd)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// assembleEnd gives data another end, whose own checksum is good.
func assembleEnd(t testing.TB, data []byte, body ...[]byte) []byte {
	t.Helper()
	parts := blocks(data)
	var end bytes.Buffer
	b := newBlockWriter(&end)
	b.number = uint64(len(parts) - 2)
	b.buf = append(b.buf, bytes.Join(body, nil)...)
	if err := b.flush(blockEnd); err != nil {
		t.Fatal(err)
	}
	return append(bytes.Join(parts[:len(parts)-1], nil), end.Bytes()...)
}

func TestSnapshotGolden(t *testing.T) {
	h, txs := small()
	equalGolden(t, "snapshot-5", written(t, h, slices.Values(sampleSessions()), pointers(txs)))
	m, err := readSnapshot(bytes.NewReader(golden(t, "snapshot-5")))
	if err != nil {
		t.Fatal(err)
	}
	// Of a machine the outcomes that are kept come last.
	equalGolden(t, "snapshot-5-kept", image(t, m))
	holds(t, m, h, txs)
	if m, err = readSnapshot(bytes.NewReader(golden(t, "snapshot-5-kept"))); err != nil {
		t.Fatal(err)
	}
	equalGolden(t, "snapshot-5-kept", image(t, m))
	holds(t, m, h, txs)
}

// TestSnapshotOfEarlierVersions: what earlier releases wrote is restored, and written
// again in the newest form.
func TestSnapshotOfEarlierVersions(t *testing.T) {
	for name, state := range map[string]func() (machine.Header, []machine.Transaction){"snapshot": old, "snapshot-2": older, "snapshot-3": recent, "snapshot-4": withSessions, "snapshot-4-kept": withSessions} {
		t.Run(name, func(t *testing.T) {
			h, txs := state()
			fromEarlier(t, name, h, txs)
		})
	}
}

func fromEarlier(t *testing.T, name string, h machine.Header, txs []machine.Transaction) {
	m, err := readSnapshot(bytes.NewReader(golden(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, m, h, txs)
	again, err := readSnapshot(bytes.NewReader(image(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, again, h, txs)
	if again.Hash() != m.Hash() {
		t.Error("written in the newest form it is another state")
	}
}

// holds wants the machine to be in this state.
func holds(t *testing.T, m *machine.Machine, h machine.Header, txs []machine.Transaction) {
	t.Helper()
	s := m.Snapshot()
	defer s.Release()
	if d := cmp.Diff(h, s.Header(), cmpopts.EquateEmpty()); d != "" || s.Len() != len(txs) {
		t.Errorf("%d transactions, header (-want +got):\n%s", s.Len(), d)
	}
	for _, want := range txs {
		got, ok := m.Get(want.ID)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); !ok || d != "" {
			t.Errorf("%v restored otherwise (-want +got):\n%s", want.ID, d)
		}
	}
	if h.Sessions > 0 {
		for _, want := range sampleSessions() {
			want.Transactions = undecided(txs, want.ID)
			if got, ok := m.Session(want.ID); !ok || got != *want {
				t.Errorf("session %+v restored as %+v", *want, got)
			}
		}
	}
	if err := m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

func undecided(txs []machine.Transaction, session txn.SessionID) (n int) {
	for i := range txs {
		if txs[i].Session == session && !txs[i].State.Decided() {
			n++
		}
	}
	return n
}

func TestEmptySnapshot(t *testing.T) {
	m, err := readSnapshot(bytes.NewReader(image(t, machine.New())))
	if err != nil {
		t.Fatal(err)
	}
	if m.Hash() != machine.New().Hash() {
		t.Error("the empty machine came back otherwise")
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := machine.Header{
			Bootstrap: machine.Bootstrap{
				Cluster: rapid.String().Draw(t, "cluster"), Interval: genDuration().Draw(t, "interval"),
				Retention: genDuration().Draw(t, "retention"), Retain: rapid.Uint64().Draw(t, "retain"),
			},
			Tick: genTick().Draw(t, "tick"), Seq: rapid.Uint64().Draw(t, "seq"), Committed: rapid.Uint64().Draw(t, "committed"),
			RolledBack: machine.ByCause(rapid.SliceOfN(rapid.Uint64(), 6, 6).Draw(t, "rolled back")),
			Participants: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) machine.Registration {
				return machine.Registration{Participant: genParticipant().Draw(t, "participant"), Removed: rapid.Bool().Draw(t, "removed")}
			}), 0, 5).Draw(t, "participants"),
			Audit:       rapid.SliceOfN(genAudit(), 0, 5).Draw(t, "audit"),
			Incarnation: rapid.Uint64().Draw(t, "incarnation"), RecoveryPaused: rapid.Bool().Draw(t, "held"), ResumedAt: rapid.Int64().Draw(t, "resumed"),
			Members: rapid.SliceOfN(genMember(), 0, 5).Draw(t, "members"),
			Removed: rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "removed nodes"),
			Tokens:  rapid.SliceOfN(genToken(), 0, 5).Draw(t, "tokens"),

			SessionsExpired: rapid.Uint64().Draw(t, "sessions expired"),
		}
		sessions := rapid.SliceOfN(genSession(), 0, 5).Draw(t, "sessions")
		h.Sessions = len(sessions)
		txs := rapid.SliceOfN(genTransaction(), 0, 8).Draw(t, "transactions")
		var data bytes.Buffer
		if err := writeSnapshot(&data, snapshotVersion, h, withoutErrors(slices.Values(sessions)), withoutErrors(pointers(txs))); err != nil {
			t.Fatal(err)
		}
		b := newBlockReader(&data)
		gotHeader, version, err := readPreamble(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(h, gotHeader, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("header (-want +got):\n%s", d)
		}
		n := 0
		for got, err := range readSessions(b, gotHeader.Sessions) {
			if err != nil || *got != *sessions[n] {
				t.Fatalf("session %d: %+v, %v; want %+v", n, got, err, sessions[n])
			}
			n++
		}
		if n != len(sessions) {
			t.Fatalf("%d sessions; want %d", n, len(sessions))
		}
		n = 0
		for got, err := range readTransactions(b, version) {
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&txs[n], got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("transaction %d (-want +got):\n%s", n, d)
			}
			n++
		}
		if n != len(txs) {
			t.Fatalf("%d transactions; want %d", n, len(txs))
		}
	})
}

func genAudit() *rapid.Generator[machine.AuditRecord] {
	return rapid.Custom(func(t *rapid.T) machine.AuditRecord {
		return machine.AuditRecord{
			Seq: rapid.Uint64().Draw(t, "seq"), Wall: rapid.Int64().Draw(t, "wall"), Tick: genTick().Draw(t, "tick"),
			Index: rapid.Uint64().Draw(t, "index"), Action: machine.AuditAction(rapid.Byte().Draw(t, "action")), ID: genID().Draw(t, "id"),
			Branch: genBranchID().Draw(t, "branch"), Outcome: txn.BranchState(rapid.Byte().Draw(t, "ending")),
			Subject: rapid.String().Draw(t, "subject"), By: rapid.String().Draw(t, "by"), Reason: rapid.String().Draw(t, "reason"),
		}
	})
}

func genSession() *rapid.Generator[*machine.Session] {
	return rapid.Custom(func(t *rapid.T) *machine.Session {
		return &machine.Session{
			ID: txn.SessionID(genID().Draw(t, "id")), Name: rapid.String().Draw(t, "name"), State: txn.SessionState(rapid.Byte().Draw(t, "state")),
			TTL: genDuration().Draw(t, "ttl"), Opened: rapid.Int64().Draw(t, "opened"), Seq: rapid.Uint64().Draw(t, "seq"), EndedTick: genTick().Draw(t, "at"),
		}
	})
}

func genTransaction() *rapid.Generator[machine.Transaction] {
	return rapid.Custom(func(t *rapid.T) machine.Transaction {
		b := func(name string) byte { return rapid.Byte().Draw(t, name) }
		return machine.Transaction{
			ID: genID().Draw(t, "id"), Name: rapid.String().Draw(t, "name"), State: txn.State(b("state")), Cause: txn.Cause(b("cause")),
			Heuristic: txn.Heuristic(b("hazard")), Reason: rapid.String().Draw(t, "reason"), Timeout: genDuration().Draw(t, "timeout"),
			Survival: rapid.Uint64().Draw(t, "survival"), Expiry: genTick().Draw(t, "expiry"), Began: rapid.Int64().Draw(t, "began"),
			Fingerprint: rapid.Uint64().Draw(t, "sum"), Seq: rapid.Uint64().Draw(t, "seq"), Ended: genTick().Draw(t, "ended"),
			Decided: rapid.Int64().Draw(t, "decided"), DecidedTick: genTick().Draw(t, "decided tick"), DecidedIndex: rapid.Uint64().Draw(t, "entry"),
			ClientCompletes: rapid.Bool().Draw(t, "own"), Reenlisted: rapid.Bool().Draw(t, "moved"), Session: genSessionID().Draw(t, "session"), Labels: genLabels().Draw(t, "labels"),
			Branches: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) machine.TransactionBranch {
				e := genBranch().Draw(t, "branch")
				return machine.TransactionBranch{
					Participant: e.Participant, Payload: e.Payload, SessionRef: e.SessionRef, Vote: txn.Vote(rapid.Byte().Draw(t, "vote")),
					State:     txn.BranchState(rapid.Byte().Draw(t, "state")),
					Heuristic: txn.Heuristic(rapid.Byte().Draw(t, "hazard")), Detail: rapid.String().Draw(t, "detail"),
				}
			}), 0, 5).Draw(t, "branches"),
		}
	})
}

// many is a machine whose snapshot has several blocks, one of them a giant.
func many(t testing.TB) *machine.Machine {
	t.Helper()
	m := machine.New()
	apply := func(cs ...machine.Command) {
		for i, r := range m.Apply(machine.Entry{Commands: cs}).Results {
			if r.Code != machine.OK {
				t.Fatalf("%T: code %d", cs[i], r.Code)
			}
		}
	}
	apply(machine.Bootstrap{Cluster: "k7q", Interval: time.Second, Retention: time.Hour})
	giant := machine.Begin{ID: id(1), Timeout: time.Second, Expiry: 5}
	for i := range 40 {
		p := fmt.Sprintf("p%d", i)
		apply(machine.AddParticipant{Participant: admin.Participant{Name: p, Kind: "ledger"}})
		giant.Branches = append(giant.Branches, machine.Branch{Participant: p, Payload: bytes.Repeat([]byte(p), txn.MaxPayload/3)})
	}
	for n := range uint64(2000) {
		if n == 1000 {
			apply(giant)
		}
		begin, commit, _ := pair(n)
		b, c := begin.(machine.Begin), commit.(machine.Commit)
		b.Branches[0].Participant, b.Branches[1].Participant = "p1", "p2"
		b.Branches[1].Payload = make([]byte, n%200)
		if apply(b); n%3 == 0 {
			apply(c)
		}
	}
	return m
}

func TestSnapshotOfManyBlocks(t *testing.T) {
	m := many(t)
	data := image(t, m)
	parts := blocks(data)
	if len(parts) < 6 {
		t.Fatalf("only %d parts", len(parts))
	}
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(data), "bit by bit": iotest.HalfReader(bytes.NewReader(data)), "EOF with the last byte": iotest.DataErrReader(bytes.NewReader(data))} {
		got, err := readSnapshot(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(image(t, got), data) {
			t.Errorf("%s: the state came back otherwise", name)
		}
	}
	full := 0
	for _, p := range parts[3 : len(parts)-2] { // behind the header and the audit trail
		if len(p) < blockTarget {
			t.Errorf("a block of %d bytes was written before it was full", len(p))
		}
		if len(p) < 2*blockTarget {
			full++
		}
	}
	if full == 0 {
		t.Error("no block of ordinary size")
	}
}

// TestSnapshotOfALongTrail: the longest audit trail, whose records are as large as
// can be, takes many blocks.
func TestSnapshotOfALongTrail(t *testing.T) {
	h, _ := small()
	h.Audit = nil
	for i := range machine.MaxAudit {
		h.Audit = append(h.Audit, machine.AuditRecord{
			Seq: uint64(i + 11), Wall: int64(i), Index: uint64(i), Action: machine.ActionForget, ID: id(byte(i)),
			By: strings.Repeat("b", machine.MaxBy), Reason: strings.Repeat(string(rune('a'+i%26)), txn.MaxReason),
		})
	}
	data := written(t, h, slices.Values(sampleSessions()), pointers(nil))
	m, err := readSnapshot(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, m, h, nil)
	audit := 0
	for _, p := range blocks(data)[1:] {
		if p[0] == blockAudit {
			audit++
		}
	}
	if audit < 20 {
		t.Errorf("%d bytes in %d blocks of the trail", len(data), audit)
	}
}

func TestSnapshotNamesTheBlock(t *testing.T) {
	data := image(t, many(t))
	parts := blocks(data)
	join := func(ps ...[][]byte) []byte { return bytes.Join(slices.Concat(ps...), nil) }
	last := len(parts) - 1
	flipped := bytes.Clone(data)
	flipped[len(parts[0])+len(parts[1])+len(parts[2])+len(parts[3])/2] ^= 4
	tests := []struct {
		name, want string
		data       []byte
	}{
		{"bit flip in block 3", "block 3: its checksum is", flipped},
		{"block 3 missing", "block 3: its checksum is", join(parts[:3], parts[4:])},
		{"block 3 twice", "block 4: its checksum is", join(parts[:4], parts[3:])},
		{"blocks 2 and 3 swapped", "block 2: its checksum is", join(parts[:2], parts[3:4], parts[2:3], parts[4:])},
		{"end missing", fmt.Sprintf("block %d: the snapshot is cut short", last), join(parts[:last])},
		{"no block at all", "block 1: the snapshot is cut short", parts[0]},
		{"nothing", "the snapshot is cut short", nil},
		{"two snapshots", fmt.Sprintf("block %d: more bytes stand behind the end", last), join(parts, parts)},
	}
	for _, tt := range tests {
		_, err := readSnapshot(bytes.NewReader(tt.data))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want ErrCorrupt: %s", tt.name, err, tt.want)
		}
	}
}

func TestSnapshotFlipsAndCuts(t *testing.T) {
	for _, name := range []string{"snapshot", "snapshot-2", "snapshot-3", "snapshot-4"} {
		flipsAndCuts(t, golden(t, name))
	}
}

func flipsAndCuts(t *testing.T, data []byte) {
	for i := range data {
		if _, err := readSnapshot(bytes.NewReader(data[:i])); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d of %d bytes: %v", i, len(data), err)
		}
		for bit := range 8 {
			data[i] ^= 1 << bit
			_, err := readSnapshot(bytes.NewReader(data))
			if !errors.Is(err, ErrCorrupt) && !(i == len(magic) && errors.Is(err, ErrUnknownVersion)) {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
			data[i] ^= 1 << bit
		}
	}
	if _, err := readSnapshot(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
}
