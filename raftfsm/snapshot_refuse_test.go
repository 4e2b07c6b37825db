package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestSnapshotRefuses has contents that are wrong under good checksums.
func TestSnapshotRefuses(t *testing.T) {
	h, txs := recent()
	var trail []byte
	for i := range h.Audit {
		trail = appendAudit(trail, &h.Audit[i])
	}
	three := []byte{blockHeader, blockAudit, blockTransactions}
	audited := appendSnapshotHeader(nil, &h)
	h.Audit = nil
	header := appendSnapshotHeader(nil, &h)
	host := h
	host.Sessions = 1
	hosting, resident := appendSnapshotHeader(nil, &host), appendSession(nil, sampleSessions()[0])
	endless := binary.AppendUvarint(bytes.Clone(header[:len(header)-1]), machine.MaxAudit+1)
	one := appendTransaction(nil, &txs[0], snapshotVersion)
	both := []byte{blockHeader, blockTransactions}
	inside := txs[0]
	inside.Session = sessionID(9)
	nowhere := bytes.Replace(appendTransaction(nil, &inside, snapshotVersion), inside.Session[:], make([]byte, 16), 1)
	crowded := txs[0]
	crowded.Branches = slices.Repeat(crowded.Branches, txn.MaxBranches)
	labelled := txs[0]
	labelled.Labels = slices.Repeat(labelled.Labels, txn.MaxLabels+1)
	crowd := h
	crowd.Participants = slices.Repeat(crowd.Participants, txn.MaxParticipants)
	newer := append([]byte(magic), restoredVersion+1)
	short := bytes.Clone(header[:len(header)-1])
	members, removed, tokens := h, h, h
	members.Members = slices.Repeat(h.Members, machine.MaxMembers)
	removed.Removed = slices.Repeat(h.Removed, machine.MaxRemoved)
	tokens.Tokens = slices.Repeat(h.Tokens, admin.MaxTokens)
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"newer version", newer, ErrUnknownVersion},
		{"version 0", append([]byte(magic), 0), ErrCorrupt},
		{"something else", []byte("SQLite format 3\x00"), ErrCorrupt},
		{"no header", assemble(t, 1, []byte{blockTransactions}, one), ErrCorrupt},
		{"two headers", assemble(t, 0, []byte{blockHeader, blockHeader}, header, header), ErrCorrupt},
		{"block of kind 0", assemble(t, 1, []byte{blockHeader, 0}, header, one), ErrCorrupt},
		{"block of the next kind", assemble(t, 1, []byte{blockHeader, newestBlock + 1}, header, one), ErrUnknownKind},
		{"audit records that were not announced", assemble(t, 1, three, header, trail, one), ErrCorrupt},
		{"more audit records than announced", assemble(t, 1, three, audited, append(bytes.Clone(trail), trail...), one), ErrCorrupt},
		{"fewer audit records than announced", assemble(t, 1, three, audited, appendAudit(nil, &machine.AuditRecord{}), one), ErrCorrupt},
		{"audit record cut short", assemble(t, 1, three, audited, trail[:len(trail)-1], one), ErrCorrupt},
		{"no sessions", assemble(t, 0, []byte{blockHeader}, hosting), ErrCorrupt},
		{"sessions that were not announced", assemble(t, 0, []byte{blockHeader, blockSessions}, header, resident), ErrCorrupt},
		{"more sessions than announced", assemble(t, 0, []byte{blockHeader, blockSessions}, hosting, append(bytes.Clone(resident), resident...)), ErrCorrupt},
		{"session cut short", assemble(t, 0, []byte{blockHeader, blockSessions}, hosting, resident[:len(resident)-1]), ErrCorrupt},
		{"transactions before the sessions", assemble(t, 1, []byte{blockHeader, blockTransactions, blockSessions}, hosting, one, resident), ErrCorrupt},
		{"in a session without an id", assemble(t, 1, both, header, nowhere), ErrCorrupt},
		{"no audit records", assemble(t, 0, []byte{blockHeader}, audited), ErrCorrupt},
		{"audit records without bound", assemble(t, 0, []byte{blockHeader}, endless), ErrCorrupt},
		{"header cut short", assemble(t, 0, []byte{blockHeader}, short), ErrCorrupt},
		{"header too long", assemble(t, 0, []byte{blockHeader}, append(bytes.Clone(header), 0)), ErrCorrupt},
		{"too many participants", assemble(t, 0, []byte{blockHeader}, appendSnapshotHeader(nil, &crowd)), ErrCorrupt},
		{"too many members", assemble(t, 0, []byte{blockHeader}, appendSnapshotHeader(nil, &members)), ErrCorrupt},
		{"too many removed nodes", assemble(t, 0, []byte{blockHeader}, appendSnapshotHeader(nil, &removed)), ErrCorrupt},
		{"too many tokens", assemble(t, 0, []byte{blockHeader}, appendSnapshotHeader(nil, &tokens)), ErrCorrupt},
		{"transaction cut short", assemble(t, 1, both, header, one[:len(one)-1]), ErrCorrupt},
		{"one transaction too many", assemble(t, 0, both, header, one), ErrCorrupt},
		{"one transaction too few", assemble(t, 2, both, header, one), ErrCorrupt},
		{"too many branches", assemble(t, 1, both, header, appendTransaction(nil, &crowded, snapshotVersion)), ErrCorrupt},
		{"too many labels", assemble(t, 1, both, header, appendTransaction(nil, &labelled, snapshotVersion)), ErrCorrupt},
		{"block of 128 MiB in 9 bytes", append(append([]byte(magic), snapshotVersion), 1, 0, 0, 0, 8, 0, 0, 0, 0), ErrCorrupt},
	}
	for _, tt := range tests {
		if _, err := readSnapshot(bytes.NewReader(tt.data)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
	}
	if _, err := readSnapshot(bytes.NewReader(assemble(t, 2, both, header, slices.Concat(one, one)))); err == nil {
		t.Error("a transaction that is there twice was restored")
	}
	huge := append(append([]byte(magic), snapshotVersion), 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
	if _, err := readSnapshot(bytes.NewReader(huge)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "at most") {
		t.Errorf("block of 4 GiB: %v", err)
	}
	if _, err := readSnapshot(bytes.NewReader(assemble(t, 0, []byte{blockHeader}, endless))); err == nil || !strings.Contains(err.Error(), "10001 audit records; at most 10000") {
		t.Errorf("audit records without bound: %v", err)
	}
	other := assembleEnd(t, assemble(t, 1, both, header, one), binary.AppendUvarint(nil, 1), make([]byte, 32))
	if _, err := readSnapshot(bytes.NewReader(other)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "checksum of the whole") {
		t.Errorf("wrong checksum of the whole: %v", err)
	}
	broken := errors.New("disk is gone")
	for _, n := range []int{0, 3, 8, 12, 40, len(newer) + 200} {
		r := io.MultiReader(bytes.NewReader(golden(t, "snapshot")[:n]), iotest.ErrReader(broken))
		if _, err := readSnapshot(r); !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
			t.Errorf("reading fails after %d bytes: %v", n, err)
		}
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add(golden(f, "snapshot"))
	f.Add(golden(f, "snapshot-2"))
	f.Add(golden(f, "snapshot-3"))
	f.Add(golden(f, "snapshot-4"))
	f.Add(golden(f, "snapshot-5"))
	f.Add(golden(f, "snapshot-6"))
	f.Add(golden(f, "snapshot-6-group"))
	f.Add(golden(f, "snapshot-7"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := readSnapshot(bytes.NewReader(data))
		known := slices.ContainsFunc([]string{"snapshot", "snapshot-2", "snapshot-3", "snapshot-4", "snapshot-5", "snapshot-6", "snapshot-7"}, func(name string) bool { return bytes.Equal(data, golden(t, name)) })
		if err == nil && !known {
			t.Fatalf("chance has made a snapshot with good checksums: %x", data)
		}
	})
}

// FuzzReadBlocks gets past the checksums: what can be restored can be written and restored again.
func FuzzReadBlocks(f *testing.F) {
	h, txs := small()
	var lodging []byte
	for _, s := range sampleSessions() {
		lodging = appendSession(lodging, s)
	}
	var body []byte
	for i := range txs {
		body = appendTransaction(body, &txs[i], snapshotVersion)
	}
	var trail []byte
	for i := range h.Audit {
		trail = appendAudit(trail, &h.Audit[i])
	}
	f.Add(appendSnapshotHeader(nil, &h), trail, lodging, body, uint64(len(txs)))
	h.Audit = nil
	f.Add(appendSnapshotHeader(nil, &h), []byte(nil), lodging, body, uint64(len(txs)))
	h.Sessions, txs[0].Session = 0, txn.SessionID{}
	f.Add(appendSnapshotHeader(nil, &h), []byte(nil), []byte(nil), appendTransaction(nil, &txs[0], snapshotVersion), uint64(1))
	f.Fuzz(func(t *testing.T, header, trail, lodging, body []byte, count uint64) {
		kinds, bodies := []byte{blockHeader}, [][]byte{header}
		if len(trail) > 0 {
			kinds, bodies = append(kinds, blockAudit), append(bodies, trail)
		}
		if len(lodging) > 0 {
			kinds, bodies = append(kinds, blockSessions), append(bodies, lodging)
		}
		kinds, bodies = append(kinds, blockTransactions), append(bodies, body)
		m, err := readSnapshot(bytes.NewReader(assemble(t, count, kinds, bodies...)))
		if err != nil {
			return
		}
		again, err := readSnapshot(bytes.NewReader(image(t, m)))
		if err != nil {
			t.Fatalf("restored once, not twice: %v", err)
		}
		if again.Hash() != m.Hash() {
			t.Fatal("restored otherwise the second time")
		}
		again.Apply(machine.Entry{Tick: again.Tick() + 1})
	})
}
