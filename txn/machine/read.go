package machine

import (
	"iter"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Bootstrap returns the cluster's configuration; ok is false before the first entry.
func (m *Machine) Bootstrap() (b Bootstrap, ok bool) { return m.boot, m.boot.Cluster != "" }

// Tick is the number of invocations of the timeout thread so far.
func (m *Machine) Tick() survival.Tick { return m.tick }

// Next returns the earliest expiry of an undecided transaction; ok is false when there is none.
func (m *Machine) Next() (survival.Tick, bool) { return m.deadlines.Next() }

// Due reports whether transactions are timed out, or their sessions have ended, and no entry
// has moved them yet: one more entry, empty if need be, is needed.
func (m *Machine) Due() bool { return m.deadlines.Due() || m.sessions.draining != 0 }

// DeadlineGroups yields the deadline groups that end at from or later, in ascending order of
// expiry, with the number of their transactions.
func (m *Machine) DeadlineGroups(from survival.Tick) iter.Seq2[survival.Tick, int] {
	return m.deadlines.Groups(from)
}

// Counts are the numbers of transactions by state, and of decisions.
type Counts struct {
	Undecided       int // undecided, the delegated ones included
	Delegated       int // undecided: the decision is left to their only branch
	Completing      int // decided (committing or rolling back), phase two not complete
	Finished        int
	Heuristics      int // finished or not
	Committed       uint64
	RolledBack      ByCause
	Sessions        int    // client sessions that are open
	SessionsExpired uint64 // that have expired so far
}

// ByCause counts the decisions to roll back, by [txn.Cause]. Those whose cause an earlier
// release has not recorded are at zero.
type ByCause [txn.CauseOperator + 1]uint64

// Sum is the number of all decisions to roll back.
func (c ByCause) Sum() (n uint64) {
	for _, v := range c {
		n += v
	}
	return n
}

// Counts takes constant time.
func (m *Machine) Counts() Counts {
	undecided := m.deadlines.Len() + m.delegated
	return Counts{
		Undecided: undecided, Delegated: m.delegated, Completing: m.completing,
		Finished: m.txs.Len() - undecided - m.completing + m.retained.ring.Len(), Heuristics: m.heuristics,
		Committed: m.committed, RolledBack: m.rolledBack,
		Sessions: m.sessions.open, SessionsExpired: m.sessions.expired,
	}
}

// Participants returns the registrations, removed ones included, by number. They must not be
// changed.
func (m *Machine) Participants() []Registration { return m.participants.published }

// Participant returns a registration.
func (m *Machine) Participant(name string) (admin.Participant, bool) {
	n, ok := m.participants.find(name)
	if !ok {
		return admin.Participant{}, false
	}
	return m.participants.list[n].Participant, true
}

// UnfinishedBranches is the number of unfinished branches at a registered participant.
func (m *Machine) UnfinishedBranches(participant string) int {
	n, ok := m.participants.find(participant)
	if !ok {
		return 0
	}
	return m.participants.list[n].unfinished
}

// OldestRetained is when the outcome finished that will be dropped next; ok is false when none
// is retained. What was dropped because there were too many finished no later.
func (m *Machine) OldestRetained() (ended survival.Tick, ok bool) {
	o, ok := m.retained.oldest()
	if !ok {
		return 0, false
	}
	return o.ended(), true
}

// Audit returns the actions of operators, oldest first, the newest [MaxAudit] of them. It must
// not be changed, and may be kept.
func (m *Machine) Audit() []AuditRecord { return m.auditLog.all() }

// Lookup returns the state of a transaction. One that is timed out, or whose session has ended,
// but which no entry has moved yet, is rolling back, or preparing if its branch is appointed: the next command on it would
// find it so.
func (m *Machine) Lookup(id txn.ID) (txn.Outcome, bool) {
	if i, ok := m.index[id]; ok {
		r := m.txs.At(i)
		state, cause := m.effectiveState(r)
		return txn.Outcome{State: state, Cause: cause, Heuristic: r.heuristic, EndedByApplication: r.is(endedByApplication)}, true
	}
	o, _, ok := m.retained.ring.Get(id)
	if !ok {
		return txn.Outcome{}, false
	}
	c := o.prefix()
	return txn.Outcome{State: c.state, Cause: c.cause, EndedByApplication: c.flags&endedByApplication != 0}, true
}

func (m *Machine) effectiveState(r *record) (txn.State, txn.Cause) {
	cause := m.dueCause(r)
	switch {
	case cause == 0:
		return r.state, r.cause
	case r.is(delegated):
		return txn.Preparing, cause
	case r.unfinished == 0:
		return txn.RolledBack, cause
	}
	return txn.RollingBack, cause
}

// Get returns a copy of a transaction. Its state is as [Machine.Lookup] reports it.
func (m *Machine) Get(id txn.ID) (t Transaction, ok bool) {
	v := m.stateView()
	if i, open := m.index[id]; open {
		v.expand(i, &t)
		t.State, t.Cause = m.effectiveState(m.txs.At(i))
		return t, true
	}
	o, _, ok := m.retained.ring.Get(id)
	if ok {
		v.expandOutcome(id, o, &t)
	}
	return t, ok
}

func (m *Machine) stateView() stateView {
	return stateView{txs: m.txs.Pages, branches: m.branches.Pages, cells: *m.strings.Pages(), participants: m.participants.published}
}

// Summary is what is cheap to read of a transaction.
type Summary struct {
	ID        txn.ID
	State     txn.State
	Heuristic txn.Heuristic
	Expiry    survival.Tick
	Began     int64 // leader's wall clock, milliseconds since 1970
	// DecidedTick is as in [Transaction].
	DecidedTick survival.Tick
	// Delegated is as in [Transaction.Delegated].
	Delegated bool
}

// Pending returns the ids of transactions whose branches have to be driven: all that a new
// leader needs to take over. It goes by slots as [Machine.Scan] does.
func (m *Machine) Pending(from uint32, limit int) (ids []txn.ID, next uint32) {
	i := max(from, 1)
	for ; i < m.txs.Used() && limit > 0; i++ {
		limit--
		r := m.txs.At(i)
		switch state, _ := m.effectiveState(r); state {
		case txn.Preparing, txn.Committing, txn.RollingBack:
			ids = append(ids, r.id)
		}
	}
	if i >= m.txs.Used() {
		return ids, 0
	}
	return ids, i
}
