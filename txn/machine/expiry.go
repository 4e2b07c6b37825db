package machine

import (
	"slices"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// A transaction has timed out when the tick of the log has reached its expiry tick: dueCause says so,
// expireBatch ends those that are due with each entry, and expireNow one that a command meets first.

// dueCause is why an undecided transaction is to be ended without a command: its session
// had ended before its deadline, or its deadline has passed. It is zero when neither holds.
func (m *Machine) dueCause(r *record) txn.Cause {
	if !r.hasDeadline() {
		return 0
	}
	if h := r.sessionSlot(); h != 0 {
		if s := m.sessions.slab.At(h); s.state != txn.SessionOpen && s.endedTick < r.expiry {
			return s.state.Cause()
		}
	}
	if r.expiry <= m.tick {
		return txn.CauseTimeout
	}
	return 0
}

// expireNow ends a transaction that is due before expireBatch has reached it.
func (m *Machine) expireNow(i uint32, cause txn.Cause) {
	m.deadlines.Cancel(uint64(i), m.txs.At(i).deadline)
	m.giveUp(i, cause)
}

// giveUp ends a transaction that has left the survival index: it is rolled back, or, when its branch is appointed, the end
// of the branch has to be found out.
func (m *Machine) giveUp(i uint32, cause txn.Cause) {
	if m.txs.At(i).is(delegated) {
		m.findOut(i, cause)
	} else {
		m.decideRollback(i, cause)
	}
}

// expireBatch rolls back some of the transactions that are due, by their deadline or the end of
// their session: as many as one entry may change. It returns how many those were.
func (m *Machine) expireBatch() int {
	n := m.deadlines.Expire(m.expireBuf)
	for _, i := range m.expireBuf[:n] {
		m.giveUp(uint32(i), m.dueCause(m.txs.At(uint32(i))))
	}
	return n
}

// TimedOut returns the expiry tick of a transaction that the entry with the given index rolled
// back because its deadline had passed; false for any other, also for one with a branch that had to be asked first.
func (m *Machine) TimedOut(id txn.ID, index uint64) (expiry survival.Tick, ok bool) {
	if i, ok := m.index[id]; ok {
		r := m.txs.At(i)
		return r.expiry, r.cause == txn.CauseTimeout && r.entry == index && !m.hasVote(r, decidesRollback)
	}
	t, ok := m.Get(id)
	return t.Expiry, ok && t.Cause == txn.CauseTimeout && t.DecidedIndex == index &&
		!slices.ContainsFunc(t.Branches, func(b TransactionBranch) bool { return decidesRollback(b.Vote) })
}

// decidesRollback reports whether a branch with this vote may have decided to roll back: also for a cause from before, when
// its end had to be found out.
func decidesRollback(v txn.Vote) bool { return v >= txn.VoteNo }

// hasVote reports whether a branch of r has such a vote.
func (m *Machine) hasVote(r *record, such func(txn.Vote) bool) bool {
	for k := r.first; k != 0; {
		b := m.branches.At(k)
		if such(b.vote) {
			return true
		}
		k = b.next
	}
	return false
}
