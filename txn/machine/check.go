package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// Hash is a fingerprint of the whole state: equal on two replicas that applied the same
// entries, however their slabs are laid out. Its time grows with the number of transactions.
func (m *Machine) Hash() uint64 {
	s := m.Snapshot()
	defer s.Release()
	sum := hashOf(s.header)
	for t := range s.Transactions() {
		sum += hashOf(*t) // a sum, since slots have no meaning
	}
	for c := range s.Sessions() {
		sum += hashOf(*c)
	}
	return sum
}

// hashOf hashes the printed form, which shows every field and sorts maps.
func hashOf(v any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%+v", v) // a hash never fails
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// CheckInvariants verifies the invariants of the package documentation. Its time grows with the
// number of transactions; it is meant for tests.
func (m *Machine) CheckInvariants() error {
	var a recount
	a.unfinished = make([]int, len(m.participants.list))
	v := m.stateView()
	var t Transaction
	for i := uint32(1); i < m.txs.Used(); i++ {
		r := m.txs.At(i)
		if r.id.IsZero() {
			continue
		}
		v.expand(i, &t)
		if err := a.add(m, i, &t); err != nil {
			return fmt.Errorf("%v: %w", r.id, err)
		}
	}
	if err := a.checkRetained(m); err != nil {
		return err
	}
	return a.compare(m)
}

// recount counts anew what the machine counts as it goes.
type recount struct {
	txs, withDeadline, delegated, completing, heuristics, restored, retained, branches int
	unfinished                                                                         []int
}

func (a *recount) add(m *Machine, i uint32, t *Transaction) error {
	r := m.txs.At(i)
	a.txs++
	a.branches += len(t.Branches)
	open := 0
	for _, b := range t.Branches {
		if !b.State.Finished() {
			open++
			a.unfinished[m.participants.byName[b.Participant]]++
		}
		if (b.State == txn.BranchHeuristic) != (b.Heuristic != 0) {
			return fmt.Errorf("branch in state %v has heuristic %q", b.State, b.Heuristic)
		}
		if t.State.Decided() && b.State.Finished() && b.Heuristic == 0 && b.State != r.decidedOutcome() {
			return fmt.Errorf("decided %v, branch %v", t.State, b.State)
		}
		if !t.State.Decided() && b.State.Finished() {
			return fmt.Errorf("undecided, branch %v", b.State)
		}
	}
	if m.index[t.ID] != i || open != int(r.unfinished) || len(t.Branches) != int(r.count) {
		return fmt.Errorf("slot %d, %d open of %d: index says slot %d, record %d of %d", i, open, len(t.Branches), m.index[t.ID], r.unfinished, r.count)
	}
	if t.State.Decided() && t.State.Finished() != (open == 0) {
		return fmt.Errorf("state %v with %d open branches", t.State, open)
	}
	if (t.Cause != 0) != (t.State == txn.RollingBack || t.State == txn.RolledBack || r.awaitsEnd()) {
		return fmt.Errorf("state %v has cause %q", t.State, t.Cause)
	}
	if err := checkDecision(r, t); err != nil {
		return err
	}
	switch {
	case r.hasDeadline():
		a.withDeadline++
	case !t.State.Decided():
		a.delegated++
	case !t.State.Finished():
		a.completing++
	case t.Heuristic == 0:
		return errors.New("finished without a heuristic outcome, and has a record")
	}
	if t.Heuristic != 0 {
		a.heuristics++
	}
	if t.BeforeRestore {
		a.restored++
	}
	return nil
}

// checkDecision verifies what has to hold for undecided, delegated and decided transactions.
func checkDecision(r *record, t *Transaction) error {
	if r.is(delegated) != (t.Delegated() || t.Appointed()) {
		return fmt.Errorf("state %v, votes %+v: delegated is %v", t.State, t.Branches, r.is(delegated))
	}
	if r.is(endedByApplication) != t.EndedByApplication() {
		return fmt.Errorf("votes %+v: ended by the application is %v", t.Branches, r.is(endedByApplication))
	}
	deciders, votes := 0, 0
	for _, b := range t.Branches {
		if b.Vote == txn.VoteEndedByApplication && r.hasDeadline() {
			return fmt.Errorf("state %v, and a branch was ended by hand", t.State)
		}
		if b.Vote != 0 {
			votes++
		}
		if b.Vote == txn.VoteDelegated {
			deciders++
		}
	}
	if deciders > 1 || deciders == 1 && r.hasDeadline() && !t.Appointed() || votes > 1 && r.is(delegated) {
		return fmt.Errorf("state %v, votes %+v: %d decide", t.State, t.Branches, deciders)
	}
	if !t.State.Decided() && (t.Decided != 0 || t.DecidedTick != 0 || t.DecidedIndex != 0 || t.Heuristic != 0) {
		return fmt.Errorf("state %v, decided at %d, tick %d, entry %d, heuristic %q", t.State, t.Decided, t.DecidedTick, t.DecidedIndex, t.Heuristic)
	}
	return nil
}

func (a *recount) compare(m *Machine) error {
	c := m.Counts()
	if a.txs != m.txs.Len() || a.txs != len(m.index) || a.branches != m.branches.Len() {
		return fmt.Errorf("%d transactions and %d branches in the slabs, %d in the index, counted %d and %d", m.txs.Len(), m.branches.Len(), len(m.index), a.txs, a.branches)
	}
	if a.withDeadline+a.delegated != c.Undecided || a.delegated != c.Delegated || a.completing != c.Completing || a.heuristics != c.Heuristics || a.retained != m.retained.ring.Len() {
		return fmt.Errorf("counts %+v, kept %d; counted %+v", c, m.retained.ring.Len(), *a)
	}
	if a.restored != m.restored {
		return fmt.Errorf("%d transactions are from before a restore, counted %d", m.restored, a.restored)
	}
	for p, n := range a.unfinished {
		if m.participants.list[p].unfinished != n {
			return fmt.Errorf("participant %s: %d open branches, counted %d", m.participants.list[p].Name, m.participants.list[p].unfinished, n)
		}
	}
	if err := errors.Join(new(auditLog).restore(m.auditLog.records), m.membership.check(), m.tokens.check()); err != nil {
		return err
	}
	return errors.Join(m.checkDeadlines(), m.checkSessions())
}

// checkDeadlines verifies the groups of the survival index: the transactions of each have as
// many invocations left as one that began now and joined it.
func (m *Machine) checkDeadlines() error {
	seen := 0
	for id, end := range m.deadlines.All() {
		r := m.txs.At(uint32(id))
		joins := survival.Index{Survival: int64(end - m.tick)}
		if index := r.survivalIndex(m.tick); !r.hasDeadline() || !index.Equal(joins) {
			return fmt.Errorf("%v in state %v, survival index %v, expiry %d, is in the group of tick %d, which %v joins",
				r.id, r.state, index, r.expiry, end, joins)
		}
		seen++
	}
	if seen != m.deadlines.Len() {
		return fmt.Errorf("survival index has %d entries and says %d", seen, m.deadlines.Len())
	}
	return nil
}
