package raftfsm

import (
	"encoding/binary"
	"slices"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// The least number of bytes of one element of a snapshot, against which counts are checked.
const (
	minRegistration      = 5
	minTransactionBranch = 7
	minMember            = 4
	minNode              = 1
	minToken             = 38
)

func appendSnapshotHeader(dst []byte, h *machine.Header) []byte {
	dst = appendBootstrap(dst, &h.Bootstrap)
	dst = binary.AppendUvarint(dst, uint64(h.Tick))
	dst = binary.AppendUvarint(dst, h.Seq)
	dst = binary.AppendUvarint(dst, h.Committed)
	for _, n := range h.RolledBack {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.Participants)))
	for i := range h.Participants {
		dst = appendParticipant(dst, &h.Participants[i].Participant)
		dst = appendFlag(dst, h.Participants[i].Removed)
	}
	dst = appendFlag(binary.AppendUvarint(dst, h.Incarnation), h.RecoveryPaused)
	dst = binary.AppendVarint(dst, h.ResumedAt)
	dst = binary.AppendUvarint(dst, uint64(len(h.Members)))
	for i := range h.Members {
		dst = appendMember(dst, &h.Members[i])
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.Removed)))
	for _, node := range h.Removed {
		dst = appendString(dst, node)
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.Tokens)))
	for i := range h.Tokens {
		dst = appendToken(dst, &h.Tokens[i])
	}
	dst = binary.AppendUvarint(dst, h.SessionsExpired)
	dst = binary.AppendUvarint(dst, uint64(h.Sessions))
	return binary.AppendUvarint(dst, uint64(len(h.Audit)))
}

func appendToken(dst []byte, t *machine.Token) []byte {
	dst = append(appendString(appendString(dst, t.ID), t.Name), byte(t.Role))
	dst = binary.AppendUvarint(append(dst, t.Hash[:]...), uint64(t.Rate))
	return appendString(binary.AppendVarint(binary.AppendVarint(dst, t.Created), t.Expires), t.By)
}

// snapshotHeader reads a header, and how many audit records follow in blocks of their own.
func (r *reader) snapshotHeader(version byte) (h machine.Header, audit int) {
	h = machine.Header{
		Bootstrap: r.bootstrap(),
		Tick:      survival.Tick(r.uvarint()),
		Seq:       r.uvarint(),
		Committed: r.uvarint(),
	}
	h.RolledBack = r.rolledBack(version)
	for range r.atMost(txn.MaxParticipants, minRegistration) {
		h.Participants = append(h.Participants, machine.Registration{Participant: r.participant(), Removed: r.flag()})
	}
	if version >= 3 {
		r.cluster(&h)
	}
	if version >= 4 {
		h.SessionsExpired, h.Sessions = r.uvarint(), int(r.uint32())
	}
	if version >= 2 {
		n := r.uvarint()
		if n > machine.MaxAudit {
			r.fail("%d audit records; at most %d", n, machine.MaxAudit)
		}
		audit = int(n)
	}
	return h, audit
}

// group reads the number of the raft group, with which the header ends from version 6 on. A snapshot
// of an earlier version is of group 0.
func (r *reader) group(version byte) uint64 {
	if version < groupVersion {
		return 0
	}
	n := r.uvarint()
	if n > txn.MaxGroup {
		r.fail("group %d; at most %d", n, txn.MaxGroup)
	}
	return n
}

// rolledBack reads the number of decisions to roll back. Before version 5 these were the number of
// all, and of those by timeout.
func (r *reader) rolledBack(version byte) (n machine.ByCause) {
	if version < 5 {
		all, timedOut := r.uvarint(), r.uvarint()
		n[txn.CauseTimeout], n[0] = timedOut, all-min(timedOut, all)
		return n
	}
	for c := range n {
		n[c] = r.uvarint()
	}
	return n
}

// cluster reads the header fields that version 3 added.
func (r *reader) cluster(h *machine.Header) {
	h.Incarnation, h.RecoveryPaused, h.ResumedAt = r.uvarint(), r.flag(), r.number()
	for range r.atMost(machine.MaxMembers, minMember) {
		h.Members = append(h.Members, r.member())
	}
	for range r.atMost(machine.MaxRemoved, minNode) {
		h.Removed = append(h.Removed, r.name())
	}
	for range r.atMost(admin.MaxTokens, minToken) {
		h.Tokens = append(h.Tokens, machine.Token{
			ID: r.name(), Name: r.name(), Role: admin.Role(r.byte()), Hash: r.hash(), Rate: r.uint32(), Created: r.number(), Expires: r.number(), By: r.name(),
		})
	}
}

func (r *reader) member() machine.Member {
	return machine.Member{Node: r.name(), Name: r.name(), API: r.name(), Version: r.name()}
}

func appendAudit(dst []byte, a *machine.AuditRecord) []byte {
	dst = binary.AppendUvarint(dst, a.Seq)
	dst = binary.AppendVarint(dst, a.Wall)
	dst = binary.AppendUvarint(dst, uint64(a.Tick))
	dst = binary.AppendUvarint(dst, a.Index)
	dst = append(append(dst, byte(a.Action)), a.ID[:]...)
	dst = append(binary.AppendUvarint(dst, uint64(a.Branch)), byte(a.Outcome))
	dst = appendString(dst, a.Subject)
	return appendString(appendString(dst, a.By), a.Reason)
}

func (r *reader) audit() machine.AuditRecord {
	return machine.AuditRecord{
		Seq:     r.uvarint(),
		Wall:    r.number(),
		Tick:    survival.Tick(r.uvarint()),
		Index:   r.uvarint(),
		Action:  machine.AuditAction(r.byte()),
		ID:      r.id(),
		Branch:  txn.BranchID(r.uint32()),
		Outcome: txn.BranchState(r.byte()),
		Subject: r.name(),
		By:      r.name(),
		Reason:  r.name(),
	}
}

func appendSession(dst []byte, s *machine.Session) []byte {
	dst = appendString(append(dst, s.ID[:]...), s.Name)
	dst = binary.AppendVarint(appendDuration(append(dst, byte(s.State)), s.TTL), s.Opened)
	return binary.AppendUvarint(binary.AppendUvarint(dst, s.Seq), uint64(s.EndedTick))
}

func (r *reader) session() machine.Session {
	return machine.Session{
		ID: r.id(), Name: r.string(), State: txn.SessionState(r.byte()), TTL: r.duration(), Opened: r.number(),
		Seq: r.uvarint(), EndedTick: survival.Tick(r.uvarint()),
	}
}

func appendTransaction(dst []byte, t *machine.Transaction, version byte) []byte {
	dst = append(dst, t.ID[:]...)
	dst = appendString(dst, t.Name)
	dst = append(dst, byte(t.State), byte(t.Cause), byte(t.Heuristic))
	dst = appendString(dst, t.Reason)
	dst = appendDuration(dst, t.Timeout)
	dst = binary.AppendUvarint(dst, t.Survival)
	dst = binary.AppendUvarint(dst, uint64(t.Expiry))
	dst = binary.AppendVarint(dst, t.Began)
	dst = binary.LittleEndian.AppendUint64(dst, t.Fingerprint)
	dst = binary.AppendUvarint(dst, t.Seq)
	dst = binary.AppendUvarint(dst, uint64(t.Ended))
	dst = binary.AppendVarint(dst, t.Decided)
	dst = binary.AppendUvarint(dst, uint64(t.DecidedTick))
	dst = binary.AppendUvarint(dst, t.DecidedIndex)
	flags := flagsOf(t, version)
	dst = append(dst, flags)
	if !t.Session.IsZero() {
		dst = append(dst, t.Session[:]...)
	}
	dst = appendLabels(dst, t.Labels)
	dst = binary.AppendUvarint(dst, uint64(len(t.Branches)))
	for i := range t.Branches {
		b := &t.Branches[i]
		dst = appendString(dst, b.Participant)
		dst = appendString(dst, b.Payload)
		dst = appendString(dst, b.SessionRef)
		if flags&flagReplaced != 0 {
			dst = binary.AppendUvarint(dst, uint64(len(b.Replaced)))
			for _, s := range b.Replaced {
				dst = appendString(dst, s)
			}
		}
		dst = append(dst, byte(b.Vote), byte(b.State), byte(b.Heuristic))
		dst = appendString(dst, b.Detail)
	}
	return dst
}

// Flags of a transaction. Version 1 knew only the first, version 3 the first two, version 5 all but the last.
const (
	flagClientCompletes byte = 1 << iota
	flagReenlisted
	flagInSession
	flagReplaced // each branch has a list of replaced session references behind its own
	flagBeforeRestore
)

func flagsOf(t *machine.Transaction, version byte) (flags byte) {
	if t.ClientCompletes {
		flags |= flagClientCompletes
	}
	if t.Reenlisted {
		flags |= flagReenlisted
	}
	if !t.Session.IsZero() {
		flags |= flagInSession
	}
	if slices.ContainsFunc(t.Branches, func(b machine.TransactionBranch) bool { return len(b.Replaced) > 0 }) {
		flags |= flagReplaced
	}
	if t.BeforeRestore && version >= restoredVersion {
		flags |= flagBeforeRestore
	}
	return flags
}

func (r *reader) transactionFlags(t *machine.Transaction, version byte) (flags byte) {
	known := flagClientCompletes
	if version >= 2 {
		known |= flagReenlisted
	}
	if version >= 4 {
		known |= flagInSession
	}
	if version >= 5 {
		known |= flagReplaced
	}
	if version >= restoredVersion {
		known |= flagBeforeRestore
	}
	b := r.byte()
	if b&^known != 0 {
		r.fail("facts %#x about a transaction; known are %#x", b, known)
	}
	t.ClientCompletes, t.Reenlisted, t.BeforeRestore = b&flagClientCompletes != 0, b&flagReenlisted != 0, b&flagBeforeRestore != 0
	if b&flagInSession == 0 {
		return b
	}
	if t.Session = r.id(); t.Session.IsZero() {
		r.fail("in a session without an id")
	}
	return b
}

// replaced reads the session references of a branch that its present one has replaced.
func (r *reader) replaced(flags byte) (all []string) {
	if flags&flagReplaced == 0 {
		return nil
	}
	for range r.count(1) {
		all = append(all, r.string())
	}
	return all
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

// transaction fills t, whose slices are reused. Its payloads are parts of the encoded bytes.
func (r *reader) transaction(t *machine.Transaction, version byte) {
	labels, branches := t.Labels[:0], t.Branches[:0]
	*t = machine.Transaction{
		ID:          r.id(),
		Name:        r.string(),
		State:       txn.State(r.byte()),
		Cause:       txn.Cause(r.byte()),
		Heuristic:   txn.Heuristic(r.byte()),
		Reason:      r.string(),
		Timeout:     r.duration(),
		Survival:    r.uvarint(),
		Expiry:      survival.Tick(r.uvarint()),
		Began:       r.number(),
		Fingerprint: r.fixed64(),
		Seq:         r.uvarint(),
		Ended:       survival.Tick(r.uvarint()),
	}
	if version >= 2 {
		t.Decided, t.DecidedTick, t.DecidedIndex = r.number(), survival.Tick(r.uvarint()), r.uvarint()
	}
	flags := r.transactionFlags(t, version)
	for range r.atMost(txn.MaxLabels, minLabel) {
		labels = append(labels, machine.Label{Key: r.string(), Value: r.string()})
	}
	for range r.atMost(txn.MaxBranches, minTransactionBranch) {
		branches = append(branches, machine.TransactionBranch{
			Participant: r.string(),
			Payload:     r.bytes(),
			SessionRef:  r.string(),
			Replaced:    r.replaced(flags),
			Vote:        txn.Vote(r.byte()),
			State:       txn.BranchState(r.byte()),
			Heuristic:   txn.Heuristic(r.byte()),
			Detail:      r.string(),
		})
	}
	t.Labels, t.Branches = labels, branches
}
