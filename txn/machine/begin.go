package machine

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

func (m *Machine) begin(c Begin) Result {
	sum := c.fingerprint()
	if i, ok := m.find(c.ID); ok {
		if m.txs.At(i).fingerprint != sum {
			return m.answer(i, Conflict)
		}
		return m.begun(i)
	}
	if r := m.checkBegin(c); r.Code != OK {
		return r
	}
	i := m.txs.Take()
	r := m.txs.Edit(i)
	m.scratch = encodeLabels(appendSession(m.scratch[:0], c.Session), c.Labels)
	*r = record{
		id: c.ID, seq: m.nextSeq(), expiry: c.Expiry, survival: c.Survival, timeout: c.Timeout,
		began: m.wall, fingerprint: sum, state: txn.Active,
		name: slab.Store(&m.strings, c.Name), labels: slab.Store(&m.strings, m.scratch),
	}
	m.index[c.ID] = i
	for k := range c.Branches {
		m.addBranch(r, &c.Branches[k])
	}
	if !c.Session.IsZero() {
		r.flags |= inSession
	}
	m.emitChange(r)
	if c.Expiry <= m.tick {
		m.giveUp(i, txn.CauseTimeout)
		return m.begun(i)
	}
	r.deadline = m.deadlines.Add(uint64(i), c.Expiry)
	m.joinSession(i)
	return m.begun(i)
}

// begun is the answer to a begin that is carried out, or was before.
func (m *Machine) begun(i uint32) Result {
	r := m.answer(i, OK)
	r.Mark = m.Mark()
	return r
}

// checkBegin refuses what must not enter the state.
func (m *Machine) checkBegin(c Begin) Result {
	if m.recoveryPaused {
		return Result{Code: RecoveryPaused}
	}
	if m.mayBeForgotten(c.Mark) { // before all other checks: whatever is wrong now, it may have been committed
		return Result{Code: Forgotten, Mark: m.Mark()}
	}
	if c.ID.IsZero() || len(c.Name) > txn.MaxName || c.Timeout <= 0 || !validLabels(c.Labels) {
		return Result{Code: Malformed}
	}
	if len(c.Branches) > txn.MaxBranches {
		return Result{Code: TooMany}
	}
	if r := m.checkSession(c.Session); r.Code != OK {
		return r
	}
	m.participants.beginSeq++
	var decider txn.BranchID
	coordinatorPrepares := false
	for k := range c.Branches {
		id := txn.BranchID(k + 1)
		p, code := m.checkBranch(&c.Branches[k])
		if code == OK && m.participants.markSeen(p) {
			code = Malformed // twice in one begin: it is not known which payload is meant
		}
		if code == OK && c.Branches[k].Decides && decider != 0 {
			code = NotSoleBranch
		}
		if code != OK {
			return Result{Code: code, Branch: id}
		}
		if c.Branches[k].Decides {
			decider = id
		}
		coordinatorPrepares = coordinatorPrepares || m.participants.list[p].CoordinatorPrepares
	}
	if decider != 0 && coordinatorPrepares {
		return Result{Code: NotSoleBranch, Branch: decider}
	}
	return Result{}
}

func (m *Machine) checkBranch(b *Branch) (participant uint32, code Code) {
	if len(b.Payload) > txn.MaxPayload || len(b.SessionRef) > txn.MaxSessionRef {
		return 0, Malformed
	}
	p, ok := m.participants.find(b.Participant)
	if !ok {
		return 0, NoParticipant
	}
	return p, OK
}

// SortedLabels returns labels in the canonical order of the log.
func SortedLabels(m map[string]string) []Label {
	if len(m) == 0 {
		return nil
	}
	out := make([]Label, 0, len(m))
	for k, v := range m { //archtest:order sorted below
		out = append(out, Label{k, v})
	}
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func validLabels(labels []Label) bool {
	if len(labels) > txn.MaxLabels {
		return false
	}
	for i, l := range labels {
		if l.Key == "" || len(l.Key) > txn.MaxLabel || len(l.Value) > txn.MaxLabel || i > 0 && labels[i-1].Key >= l.Key {
			return false
		}
	}
	return true
}

// addBranch appends a checked branch to r.
func (m *Machine) addBranch(r *record, b *Branch) {
	p, _ := m.participants.find(b.Participant)
	m.participants.list[p].unfinished++
	m.appendBranch(r, branch{
		participant: p, state: txn.BranchEnlisted,
		payload: slab.Store(&m.strings, b.Payload), sessionRef: slab.Store(&m.strings, b.SessionRef),
	})
	r.unfinished++
	if b.Decides {
		m.appoint(r)
	}
}

// appendBranch links a branch at the end of r's list.
func (m *Machine) appendBranch(r *record, b branch) {
	k := m.branches.Take()
	*m.branches.Edit(k) = b
	if r.last == 0 {
		r.first = k
	} else {
		m.branches.Edit(r.last).next = k
	}
	r.last = k
	r.count++
}

func (m *Machine) enlist(c Enlist) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	if r.state != txn.Active {
		return m.notActive(i)
	}
	p, code := m.checkBranch(&c.Branch)
	if code != OK {
		return m.answer(i, code)
	}
	if k, id := m.branchAt(r, p); k != 0 {
		if c.Branch.Decides && m.branches.At(k).vote != txn.VoteDelegated { // its client would take it for appointed
			return m.refuse(i, NotSoleBranch, id)
		}
		res := m.enlistAgain(i, k, id, &c)
		if res.Code == OK && c.Branch.Revokes && !c.Branch.Decides {
			m.revokeUpTo(i, id)
		}
		return res
	}
	switch {
	case int(r.count) == txn.MaxBranches:
		return m.answer(i, TooMany)
	case r.is(delegated) && !c.Branch.Revokes:
		return m.refuseDelegated(i)
	case c.Branch.Decides && !m.mayDecide(p, r):
		return m.refuse(i, NotSoleBranch, txn.BranchID(r.count+1))
	}
	if c.Branch.Revokes {
		m.revoke(i)
	}
	r = m.txs.Edit(i)
	m.addBranch(r, &c.Branch)
	res := m.answer(i, OK)
	res.Branch = txn.BranchID(r.count)
	return res
}

// enlistAgain answers a repeat, which may come from a new connection, but not when the old one
// has voted: what it prepared is the branch.
func (m *Machine) enlistAgain(i, k uint32, id txn.BranchID, e *Enlist) Result {
	c := &e.Branch
	b := m.branches.At(k)
	another := c.SessionRef != "" && !m.strings.Pages().Equal(b.sessionRef, []byte(c.SessionRef))
	if !m.strings.Pages().Equal(b.payload, c.Payload) || another && b.vote != 0 {
		return m.refuse(i, Conflict, id)
	}
	if another && !e.Legacy {
		if code := m.replaceSessionRef(k, c.SessionRef); code != OK {
			return m.refuse(i, code, id)
		}
	}
	if another {
		if b.sessionRef != 0 {
			m.txs.Edit(i).flags |= reenlisted // the old connection may still be at work: only a prepare tells which of the two is the branch
		}
		b = m.branches.Edit(k)
		m.strings.Drop(b.sessionRef)
		b.sessionRef = slab.Store(&m.strings, c.SessionRef)
	}
	res := m.answer(i, OK)
	res.Branch = id
	return res
}

// maxReplacedRefs is how many session references of one branch may be replaced.
const maxReplacedRefs = 16

// replaceSessionRef records that the branch's session reference is replaced by next, unless
// next was replaced before.
func (m *Machine) replaceSessionRef(k uint32, next string) Code {
	b := m.branches.At(k)
	if b.sessionRef == 0 {
		return OK
	}
	gone := splitStrings(m.strings.Pages().Append(nil, b.replaced))
	if slices.Contains(gone, next) {
		return SessionRefReplaced
	}
	if len(gone) == maxReplacedRefs {
		return TooMany
	}
	m.scratch = joinStrings(m.scratch[:0], append(gone, string(m.strings.Pages().Append(nil, b.sessionRef))))
	b = m.branches.Edit(k)
	m.strings.Drop(b.replaced)
	b.replaced = slab.Store(&m.strings, m.scratch)
	return OK
}

// joinStrings and splitStrings encode a list of strings as one string.
func joinStrings(dst []byte, all []string) []byte {
	for _, s := range all {
		dst = appendString(dst, s)
	}
	return dst
}

func splitStrings(b []byte) (all []string) {
	for len(b) > 0 {
		var s string
		s, b = cutString(b)
		all = append(all, s)
	}
	return all
}

// branchAt finds the branch of r at a participant.
func (m *Machine) branchAt(r *record, p uint32) (slot uint32, id txn.BranchID) {
	for k, n := r.first, txn.BranchID(1); k != 0; n++ {
		b := m.branches.At(k)
		if b.participant == p {
			return k, n
		}
		k = b.next
	}
	return 0, 0
}

// branch finds a branch of r by its id.
func (m *Machine) branch(r *record, id txn.BranchID) uint32 {
	if id == 0 || uint64(id) > uint64(r.count) {
		return 0
	}
	k := r.first
	for ; id > 1; id-- {
		k = m.branches.At(k).next
	}
	return k
}

// fingerprint recognises a repeated begin. Values that the leader computes anew at each try are
// not part of it.
func (c *Begin) fingerprint() uint64 {
	h := fnv.New64a()
	var b []byte
	b = appendString(b, c.Name)
	b = binary.AppendVarint(b, int64(c.Timeout))
	b = encodeLabels(b, c.Labels)
	for _, e := range c.Branches {
		b = appendString(b, e.Participant)
		b = binary.AppendUvarint(b, uint64(len(e.Payload)))
		b = append(b, e.Payload...)
	}
	for k := range c.Branches {
		if c.Branches[k].Decides { // nothing otherwise, as in earlier releases
			b = binary.AppendUvarint(b, uint64(k+1))
		}
	}
	b = appendSession(b, c.Session) // nothing without a session, as in releases before there were sessions
	_, _ = h.Write(b)               // never fails
	return h.Sum64()
}
