package machine

import (
	"slices"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// model is the machine written the slow and obvious way: maps, no groups, every transaction
// checked whenever the tick moves. It knows what a caller can see and nothing else.
type model struct {
	tick     survival.Tick
	wall     int64
	index    uint64
	counts   Counts
	trail    []AuditRecord
	boot     Bootstrap
	coord    map[string]bool // participants, and whether the coordinator prepares them
	txs      map[txn.ID]*modelTx
	finished []txn.ID // in the order of the retention queue

	held     bool
	restored bool
	resumed  int64
	members  map[string]Member
	removed  map[string]bool
	tokens   map[string]Token // by id
	sessions map[txn.SessionID]*modelSession
	ended    []txn.SessionID // in that order
	joins    int
}

type modelTx struct {
	state    txn.State
	cause    txn.Cause
	hazard   txn.Heuristic
	expiry   survival.Tick
	ended    survival.Tick
	sum      uint64
	own      bool
	name     string
	reason   string
	decided  int64
	at       survival.Tick
	entry    uint64
	branches []*modelBranch
	session  txn.SessionID
	joined   int  // its place among the undecided
	decider  int  // number of the branch whose end decides; 0 when the log does
	moved    bool // a branch was given another session
}

type modelBranch struct {
	at     string
	vote   txn.Vote
	state  txn.BranchState
	hazard txn.Heuristic
	detail string
	place  string // session reference
	gone   []string
}

func newModel(boot Bootstrap, coord map[string]bool) *model {
	return &model{
		boot: boot, coord: coord, txs: make(map[txn.ID]*modelTx),
		members: make(map[string]Member), removed: make(map[string]bool), tokens: make(map[string]Token),
		sessions: make(map[txn.SessionID]*modelSession),
	}
}

// advance moves the tick and ends what is due. The machine may do so later, which no caller can
// tell: its readers and commands see what is due as ended.
func (m *model) advance(e Entry, drained []txn.ID) {
	m.tick, m.wall, m.index = max(m.tick, e.Tick), e.Wall, e.Index
	for _, id := range drained {
		m.expire(id)
	}
	m.evict()
	m.forgetSessions()
}

func (m *model) expire(id txn.ID) {
	t := m.txs[id]
	if t == nil || t.state.Decided() || t.delegated() {
		return
	}
	if s := m.sessions[t.session]; s != nil && s.state != txn.SessionOpen && s.at < t.expiry {
		m.giveUp(id, s.state.Cause())
	} else if t.expiry <= m.tick {
		m.giveUp(id, txn.CauseTimeout)
	}
}

// giveUp rolls back, or has the end of the appointed branch found out.
func (m *model) giveUp(id txn.ID, c txn.Cause) {
	if t := m.txs[id]; t.appointed() {
		t.state, t.cause = txn.Preparing, c
	} else {
		m.decide(id, txn.RollingBack, c)
	}
}

// evict drops what finished in one step when the retention of all of it has ended.
func (m *model) evict() {
	retention := max(survival.Tick(m.boot.Retention/m.boot.Interval), 1)
	step := m.step()
	m.finished = slices.DeleteFunc(m.finished, func(id txn.ID) bool {
		late := m.txs[id].ended/step*step+step-1+retention <= m.tick-m.tick%step
		if late {
			delete(m.txs, id)
		}
		return late
	})
}

// trim drops what finished in the first step, but not in the present one, as long as enough are left.
func (m *model) trim() {
	step := m.step()
	for len(m.finished) > 0 {
		first := m.txs[m.finished[0]].ended / step
		n := 0
		for n < len(m.finished) && m.txs[m.finished[n]].ended/step == first {
			n++
		}
		if first == m.tick/step || uint64(len(m.finished)-n) < m.boot.Retain {
			return
		}
		for _, id := range m.finished[:n] {
			delete(m.txs, id)
		}
		m.finished = m.finished[n:]
	}
}

// step is the number of ticks in which outcomes that finish are dropped together.
func (m *model) step() survival.Tick {
	retention := survival.Tick(m.boot.Retention / m.boot.Interval)
	step := survival.Tick(1)
	for step*240 < retention && time.Duration(step+1)*m.boot.Interval <= 15*time.Second || step*60_000 < retention {
		step++
	}
	return step
}

// decide gives the one decision and ends the branches that need no phase two.
func (m *model) decide(id txn.ID, s txn.State, c txn.Cause) {
	t := m.txs[id]
	t.state, t.cause, t.decider = s, c, 0
	t.decided, t.at, t.entry = m.wall, m.tick, m.index
	if s == txn.Committing {
		m.counts.Committed++
	} else {
		m.counts.RolledBack[c]++
	}
	for _, b := range t.branches {
		if b.vote == txn.VoteReadOnly || b.vote == txn.VoteNo {
			b.state = t.end()
		}
	}
	m.finishVoteless(id)
}

func (t *modelTx) delegated() bool { return t.state == txn.Preparing && t.decider != 0 }

// appointed: active, and one branch decides. Once that has to be found out, it is delegated, with a cause.
func (t *modelTx) appointed() bool { return t.state == txn.Active && t.decider != 0 }

func (t *modelTx) awaitsEnd() bool { return t.delegated() && t.cause != 0 }

// count says how many transactions there are of each sort.
func (m *model) count() Counts {
	c := m.counts
	for _, s := range m.sessions {
		if s.state == txn.SessionOpen {
			c.Sessions++
		}
	}
	for _, t := range m.txs {
		switch {
		case t.state.Finished():
			c.Finished++
		case t.state.Decided():
			c.Completing++
		case t.delegated():
			c.Undecided++
			c.Delegated++
		default:
			c.Undecided++
		}
		if t.hazard != 0 {
			c.Heuristics++
		}
	}
	return c
}

// appendAudit records an action of an operator.
func (m *model) appendAudit(a AuditRecord) {
	a.Seq = 1
	if n := len(m.trail); n > 0 {
		a.Seq = m.trail[n-1].Seq + 1
	}
	a.Wall, a.Tick, a.Index = m.wall, m.tick, m.index
	m.trail = append(m.trail, a)
}

func (t *modelTx) end() txn.BranchState {
	if t.state.Commits() {
		return txn.BranchCommitted
	}
	return txn.BranchRolledBack
}

// finishVoteless finishes a decided transaction without open branches.
func (m *model) finishVoteless(id txn.ID) {
	t := m.txs[id]
	open := slices.ContainsFunc(t.branches, func(b *modelBranch) bool { return !b.state.Finished() })
	before := t.hazard
	t.hazard = t.deriveHeuristic()
	was := t.state.Finished()
	if was && before == 0 && t.hazard != 0 {
		m.finished = slices.DeleteFunc(m.finished, func(x txn.ID) bool { return x == id })
	}
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

func (t *modelTx) deriveHeuristic() txn.Heuristic {
	kinds := map[txn.Heuristic]int{}
	for _, b := range t.branches {
		kinds[b.hazard]++
	}
	wrong := kinds[txn.HeuristicCommit] + kinds[txn.HeuristicRollback]
	switch {
	case wrong > 0 && wrong < len(t.branches):
		return txn.HeuristicMixed
	case kinds[txn.HeuristicCommit] > 0:
		return txn.HeuristicCommit
	case kinds[txn.HeuristicRollback] > 0:
		return txn.HeuristicRollback
	case kinds[txn.HeuristicHazard] > 0:
		return txn.HeuristicHazard
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
			case t.awaitsEnd():
			case t.delegated():
				return Delegated
			case !t.state.Decided():
				t.reason = c.Reason
				m.giveUp(c.ID, c.Cause)
				if c.Cause == txn.CauseOperator {
					m.appendAudit(AuditRecord{Action: ActionRollback, ID: c.ID, Reason: c.Reason})
				}
			}
			return OK
		})
	case Vote:
		return m.on(c.ID, func(t *modelTx) Code { return m.vote(c, t) })
	case EndedByApplication:
		return m.on(c.ID, func(t *modelTx) Code { return m.endedByHand(c, t) })
	case Delegate:
		return m.on(c.ID, func(t *modelTx) Code { return m.delegate(c, t) })
	case Resolve:
		return m.on(c.ID, func(t *modelTx) Code { return m.resolve(c, t) })
	case Extend:
		return m.on(c.ID, func(t *modelTx) Code {
			switch {
			case t.delegated():
				return Delegated
			case t.state != txn.Active:
				return Decided
			}
			if c.Expiry > t.expiry {
				t.expiry = c.Expiry
				m.joins++
				t.joined = m.joins
			}
			return OK
		})
	case ReportCompletion:
		return m.on(c.ID, func(t *modelTx) Code { return m.done(c, t) })
	case ReportHeuristic:
		return m.on(c.ID, func(t *modelTx) Code { return m.reportHeuristic(c, t) })
	case Forget:
		return m.on(c.ID, func(t *modelTx) Code {
			if !t.state.Finished() {
				return Unfinished
			}
			if t.hazard != 0 {
				t.hazard, t.ended, t.reason = 0, m.tick, c.Reason
				m.finished = append(m.finished, c.ID)
				m.appendAudit(AuditRecord{Action: ActionForget, ID: c.ID, By: c.By, Reason: c.Reason})
			}
			return OK
		})
	}
	if code, ok := m.session(c); ok {
		return code
	}
	return m.cluster(c)
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
		if t.sum != c.fingerprint() {
			return Conflict
		}
		return OK
	}
	if m.held {
		return RecoveryPaused
	}
	if code := m.mayBegin(c.Session); code != OK {
		return code
	}
	if code := m.mayDecide(c.Branches); code != OK {
		return code
	}
	m.joins++
	t := &modelTx{state: txn.Active, expiry: c.Expiry, sum: c.fingerprint(), name: c.Name, session: c.Session, joined: m.joins}
	for _, b := range c.Branches {
		t.add(b)
	}
	m.txs[c.ID] = t
	m.expire(c.ID)
	return OK
}

func (m *model) commit(c Commit, t *modelTx) Code {
	switch {
	case t.state.Commits():
		return OK
	case t.state.Decided():
		return Decided
	case t.decider != 0:
		return Delegated
	}
	votes, ok := t.mergeVotes(c.Votes)
	if !ok {
		return BadVote
	}
	no, missing := slices.Contains(votes, txn.VoteNo), slices.Contains(votes, 0)
	for i, v := range votes {
		if v == 0 && !no && !m.coord[t.branches[i].at] {
			return MissingVote
		}
	}
	t.cast(votes)
	t.own = t.own || c.ClientCompletes
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

func (m *model) done(c ReportCompletion, t *modelTx) Code {
	if t.decider != 0 {
		return m.end(c, t)
	}
	if !t.state.Decided() {
		return Undecided
	}
	if len(c.Reports) > len(t.branches) {
		return BadCompletion
	}
	for _, a := range c.Reports {
		if a.Branch == 0 || int(a.Branch) > len(t.branches) || a.State != t.end() {
			return BadCompletion
		}
		if h := t.branches[a.Branch-1].hazard; h != 0 && h != txn.HeuristicHazard {
			return BadCompletion
		}
	}
	if t.state.Finished() && t.hazard == 0 {
		return OK
	}
	for _, a := range c.Reports {
		b := t.branches[a.Branch-1]
		b.state, b.hazard, b.detail = t.end(), 0, ""
	}
	m.finishVoteless(c.ID)
	return OK
}

func (m *model) reportHeuristic(c ReportHeuristic, t *modelTx) Code {
	if t.delegated() {
		return m.heuristicDelegated(c, t)
	}
	if !t.state.Decided() {
		return Undecided
	}
	if c.Branch == 0 || int(c.Branch) > len(t.branches) {
		return NoBranch
	}
	b := t.branches[c.Branch-1]
	asDecided := c.Heuristic == txn.HeuristicCommit && t.state.Commits() || c.Heuristic == txn.HeuristicRollback && !t.state.Commits()
	switch {
	case asDecided:
		return Malformed
	case b.hazard == c.Heuristic:
		return OK
	case t.state.Finished() && t.hazard == 0, b.state.Finished() && b.hazard != txn.HeuristicHazard:
		if c.Legacy || c.Heuristic == txn.HeuristicHazard || b.vote == txn.VoteReadOnly {
			return BadCompletion
		}
	}
	b.state, b.hazard, b.detail = txn.BranchHeuristic, c.Heuristic, c.Detail
	m.finishVoteless(c.ID)
	return OK
}
