package machine

import (
	"slices"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// model is the machine written the slow and obvious way: maps, no groups, every
// transaction looked at whenever the tick moves. It knows what an outsider can
// see and nothing else.
type model struct {
	tick     survival.Tick
	boot     Bootstrap
	coord    map[string]bool // participants, and whether the coordinator prepares them
	txs      map[txn.ID]*modelTx
	finished []txn.ID // in the order of the retention queue
}

type modelTx struct {
	state    txn.State
	cause    txn.Cause
	hazard   txn.Hazard
	expiry   survival.Tick
	ended    survival.Tick
	sum      uint64
	own      bool
	branches []*modelBranch
}

type modelBranch struct {
	at     string
	vote   txn.Vote
	state  txn.BranchState
	hazard txn.Hazard
}

func newModel(boot Bootstrap, coord map[string]bool) *model {
	return &model{boot: boot, coord: coord, txs: make(map[txn.ID]*modelTx)}
}

// advance moves the tick and ends what is due. The machine may do so later,
// which nobody can tell: its readers and commands see what is due as ended.
func (m *model) advance(to survival.Tick, drained []txn.ID) {
	m.tick = max(m.tick, to)
	for _, id := range drained {
		m.expire(id)
	}
	m.evict()
}

func (m *model) expire(id txn.ID) {
	if t := m.txs[id]; t != nil && !t.state.Decided() && t.expiry <= m.tick {
		m.decide(id, txn.RollingBack, txn.CauseTimeout)
	}
}

func (m *model) evict() {
	retention := survival.Tick(m.boot.Retention / m.boot.Interval)
	for len(m.finished) > 0 {
		id := m.finished[0]
		if uint64(len(m.finished)) <= m.boot.Retain && m.txs[id].ended+retention > m.tick {
			return
		}
		delete(m.txs, id)
		m.finished = m.finished[1:]
	}
}

// decide gives the one decision and ends the branches that need no phase two.
func (m *model) decide(id txn.ID, s txn.State, c txn.Cause) {
	t := m.txs[id]
	t.state, t.cause = s, c
	for _, b := range t.branches {
		if b.vote == txn.VoteReadOnly || b.vote == txn.VoteNo {
			b.state = t.end()
		}
	}
	m.settle(id)
}

func (t *modelTx) end() txn.BranchState {
	if t.state.Commits() {
		return txn.BranchCommitted
	}
	return txn.BranchRolledBack
}

// settle finishes a decided transaction without open branches.
func (m *model) settle(id txn.ID) {
	t := m.txs[id]
	open := slices.ContainsFunc(t.branches, func(b *modelBranch) bool { return !b.state.Finished() })
	before := t.hazard
	t.hazard = t.weigh()
	was := t.state.Finished()
	switch {
	case open:
		return
	case t.state == txn.Committing:
		t.state = txn.Committed
	case t.state == txn.RollingBack:
		t.state = txn.RolledBack
	}
	if t.hazard == 0 && (!was || before != 0) {
		t.ended = m.tick
		m.finished = append(m.finished, id)
	}
}

func (t *modelTx) weigh() txn.Hazard {
	kinds := map[txn.Hazard]int{}
	for _, b := range t.branches {
		kinds[b.hazard]++
	}
	wrong := kinds[txn.HazardCommitted] + kinds[txn.HazardRolledBack]
	switch {
	case wrong > 0 && wrong < len(t.branches):
		return txn.HazardMixed
	case kinds[txn.HazardCommitted] > 0:
		return txn.HazardCommitted
	case kinds[txn.HazardRolledBack] > 0:
		return txn.HazardRolledBack
	case kinds[txn.HazardUnknown] > 0:
		return txn.HazardUnknown
	}
	return 0
}

func (m *model) apply(c Command) Code {
	switch c := c.(type) {
	case Begin:
		return m.begin(c)
	case Enlist:
		return m.on(c.ID, func(t *modelTx) Code { return m.enlist(t, c.Branch) })
	case Commit:
		return m.on(c.ID, func(t *modelTx) Code { return m.commit(c, t) })
	case Rollback:
		return m.on(c.ID, func(t *modelTx) Code {
			switch {
			case t.state.Commits():
				return Decided
			case !t.state.Decided():
				m.decide(c.ID, txn.RollingBack, c.Cause)
			}
			return OK
		})
	case Extend:
		return m.on(c.ID, func(t *modelTx) Code {
			if t.state != txn.Active {
				return Decided
			}
			t.expiry = max(t.expiry, c.Expiry)
			return OK
		})
	case Done:
		return m.on(c.ID, func(t *modelTx) Code { return m.done(c, t) })
	case Hazard:
		return m.on(c.ID, func(t *modelTx) Code { return m.danger(c, t) })
	case Forget:
		return m.on(c.ID, func(t *modelTx) Code {
			if !t.state.Finished() {
				return Unfinished
			}
			if t.hazard != 0 {
				t.hazard, t.ended = 0, m.tick
				m.finished = append(m.finished, c.ID)
			}
			return OK
		})
	}
	return Malformed
}

func (m *model) on(id txn.ID, do func(*modelTx) Code) Code {
	m.expire(id)
	if t := m.txs[id]; t != nil {
		return do(t)
	}
	return NotFound
}

func (m *model) begin(c Begin) Code {
	m.expire(c.ID)
	if t := m.txs[c.ID]; t != nil {
		if t.sum != c.sum() {
			return Conflict
		}
		return OK
	}
	t := &modelTx{state: txn.Active, expiry: c.Expiry, sum: c.sum()}
	for _, b := range c.Branches {
		t.branches = append(t.branches, &modelBranch{at: b.Participant, state: txn.BranchEnlisted})
	}
	m.txs[c.ID] = t
	m.expire(c.ID)
	return OK
}

func (m *model) enlist(t *modelTx, b Branch) Code {
	_, known := m.coord[b.Participant]
	switch {
	case t.state != txn.Active:
		return Decided
	case !known:
		return NoParticipant
	case !slices.ContainsFunc(t.branches, func(x *modelBranch) bool { return x.at == b.Participant }):
		t.branches = append(t.branches, &modelBranch{at: b.Participant, state: txn.BranchEnlisted})
	}
	return OK
}

func (m *model) commit(c Commit, t *modelTx) Code {
	switch {
	case t.state.Commits():
		return OK
	case t.state.Decided():
		return Decided
	}
	votes := make([]txn.Vote, len(t.branches))
	for i, b := range t.branches {
		votes[i] = b.vote
	}
	for _, v := range c.Votes {
		if v.Branch == 0 || int(v.Branch) > len(votes) || votes[v.Branch-1] != 0 && votes[v.Branch-1] != v.Vote {
			return BadVote
		}
		votes[v.Branch-1] = v.Vote
	}
	no, missing := slices.Contains(votes, txn.VoteNo), slices.Contains(votes, 0)
	for i, v := range votes {
		if v == 0 && !no && !m.coord[t.branches[i].at] {
			return MissingVote
		}
	}
	for i, v := range votes {
		if v != 0 {
			t.branches[i].vote, t.branches[i].state = v, txn.BranchPrepared
		}
	}
	t.own = t.own || c.OwnPhaseTwo
	switch {
	case no:
		m.decide(c.ID, txn.RollingBack, txn.CauseVoteNo)
		return Decided
	case missing:
		t.state = txn.Preparing
	default:
		m.decide(c.ID, txn.Committing, 0)
	}
	return OK
}

func (m *model) done(c Done, t *modelTx) Code {
	if !t.state.Decided() {
		return Undecided
	}
	for _, a := range c.Acks {
		if a.Branch == 0 || int(a.Branch) > len(t.branches) || a.State != t.end() {
			return BadAck
		}
		if h := t.branches[a.Branch-1].hazard; h != 0 && h != txn.HazardUnknown {
			return BadAck
		}
	}
	if t.state.Finished() && t.hazard == 0 {
		return OK
	}
	for _, a := range c.Acks {
		b := t.branches[a.Branch-1]
		b.state, b.hazard = t.end(), 0
	}
	m.settle(c.ID)
	return OK
}

func (m *model) danger(c Hazard, t *modelTx) Code {
	if !t.state.Decided() {
		return Undecided
	}
	if c.Branch == 0 || int(c.Branch) > len(t.branches) {
		return NoBranch
	}
	b := t.branches[c.Branch-1]
	asDecided := c.Hazard == txn.HazardCommitted && t.state.Commits() || c.Hazard == txn.HazardRolledBack && !t.state.Commits()
	switch {
	case asDecided:
		return Malformed
	case b.hazard == c.Hazard:
		return OK
	case t.state.Finished() && t.hazard == 0, b.state.Finished() && b.hazard != txn.HazardUnknown:
		return BadAck
	}
	b.state, b.hazard = txn.BranchHazard, c.Hazard
	m.settle(c.ID)
	return OK
}
