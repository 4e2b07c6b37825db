package raftfsm

import (
	"encoding/binary"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// The fewest bytes of one element of a snapshot: what a count is held against.
const (
	minRegistration      = 5
	minTransactionBranch = 7
)

func appendSnapshotHeader(dst []byte, h *machine.Header) []byte {
	dst = appendBootstrap(dst, &h.Bootstrap)
	dst = binary.AppendUvarint(dst, uint64(h.Tick))
	dst = binary.AppendUvarint(dst, h.Seq)
	dst = binary.AppendUvarint(dst, h.Committed)
	dst = binary.AppendUvarint(dst, h.RolledBack)
	dst = binary.AppendUvarint(dst, h.TimedOut)
	dst = binary.AppendUvarint(dst, uint64(len(h.Participants)))
	for i := range h.Participants {
		dst = appendParticipant(dst, &h.Participants[i].Participant)
		dst = appendFlag(dst, h.Participants[i].Removed)
	}
	return dst
}

func (r *reader) snapshotHeader() machine.Header {
	h := machine.Header{
		Bootstrap:  r.bootstrap(),
		Tick:       survival.Tick(r.uvarint()),
		Seq:        r.uvarint(),
		Committed:  r.uvarint(),
		RolledBack: r.uvarint(),
		TimedOut:   r.uvarint(),
	}
	for range r.atMost(txn.MaxParticipants, minRegistration) {
		h.Participants = append(h.Participants, machine.Registration{Participant: r.participant(), Removed: r.flag()})
	}
	return h
}

func appendTransaction(dst []byte, t *machine.Transaction) []byte {
	dst = append(dst, t.ID[:]...)
	dst = appendString(dst, t.Name)
	dst = append(dst, byte(t.State), byte(t.Cause), byte(t.Hazard))
	dst = appendString(dst, t.Reason)
	dst = appendDuration(dst, t.Timeout)
	dst = binary.AppendUvarint(dst, t.Survival)
	dst = binary.AppendUvarint(dst, uint64(t.Expiry))
	dst = binary.AppendVarint(dst, t.Began)
	dst = binary.LittleEndian.AppendUint64(dst, t.Sum)
	dst = binary.AppendUvarint(dst, t.Seq)
	dst = binary.AppendUvarint(dst, uint64(t.Ended))
	dst = appendFlag(dst, t.OwnPhaseTwo)
	dst = appendLabels(dst, t.Labels)
	dst = binary.AppendUvarint(dst, uint64(len(t.Branches)))
	for i := range t.Branches {
		b := &t.Branches[i]
		dst = appendString(dst, b.Participant)
		dst = appendString(dst, b.Payload)
		dst = appendString(dst, b.Session)
		dst = append(dst, byte(b.Vote), byte(b.State), byte(b.Hazard))
		dst = appendString(dst, b.Detail)
	}
	return dst
}

// atMost reads a count that the machine never lets grow beyond a limit.
func (r *reader) atMost(limit, size int) int {
	n := r.count(size)
	if n > limit {
		r.fail("%d elements; at most %d", n, limit)
		return 0
	}
	return n
}

// transaction fills t, whose slices are used again. Its payloads are parts of the encoded bytes.
func (r *reader) transaction(t *machine.Transaction) {
	labels, branches := t.Labels[:0], t.Branches[:0]
	*t = machine.Transaction{
		ID:          r.id(),
		Name:        r.string(),
		State:       txn.State(r.byte()),
		Cause:       txn.Cause(r.byte()),
		Hazard:      txn.Hazard(r.byte()),
		Reason:      r.string(),
		Timeout:     r.duration(),
		Survival:    r.uvarint(),
		Expiry:      survival.Tick(r.uvarint()),
		Began:       r.number(),
		Sum:         r.fixed64(),
		Seq:         r.uvarint(),
		Ended:       survival.Tick(r.uvarint()),
		OwnPhaseTwo: r.flag(),
	}
	for range r.atMost(txn.MaxLabels, minLabel) {
		labels = append(labels, machine.Label{Key: r.string(), Value: r.string()})
	}
	for range r.atMost(txn.MaxBranches, minTransactionBranch) {
		branches = append(branches, machine.TransactionBranch{
			Participant: r.string(),
			Payload:     r.bytes(),
			Session:     r.string(),
			Vote:        txn.Vote(r.byte()),
			State:       txn.BranchState(r.byte()),
			Hazard:      txn.Hazard(r.byte()),
			Detail:      r.string(),
		})
	}
	t.Labels, t.Branches = labels, branches
}
