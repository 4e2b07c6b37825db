package machine

import (
	"sync/atomic"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// DrainBatch is how many records of due transactions one entry moves, and
// forgetBatch how many ended sessions one entry forgets.
const (
	DrainBatch  = 4096
	forgetBatch = 4096
)

// Machine is the state that the log drives. Make one with [New] or [Restore].
type Machine struct {
	boot Bootstrap
	tick survival.Tick
	seq  uint64

	txs      slab[record]
	branches slab[branch]
	texts    texts
	shared   *atomic.Int32

	index     map[txn.ID]uint32 // looked up, never ranged over
	deadlines *survival.Table   // of the undecided, by slot
	parts     registry
	kept      kept
	sessions  sessions
	trail     trail
	nodes     nodes
	tokens    tokens

	incarnation uint64 // how often the state was restored from a backup
	held        bool   // since the last time nobody has said that all may go on
	resumed     int64  // when somebody said so: leader's wall clock, milliseconds since 1970

	undone    int // decided and not finished
	delegated int // undecided, and only their branch's end decides
	hazards   int // finished or not, with a hazard
	committed uint64
	rolled    ByCause

	due     []uint64 // scratch of the drain
	closed  []uint32 // records that are to go onto the belt, in this order, before the next command
	thawed  uint32   // record of the outcome that the command is about, which is on the belt; 0 for none
	ghost   Transaction
	scratch []byte
	// Of the entry that is being applied.
	fx    *Effects
	wall  int64
	entry uint64
}

// New gives the state before the first entry.
func New() *Machine {
	shared := new(atomic.Int32)
	return &Machine{
		shared:    shared,
		txs:       newSlab[record](shared),
		branches:  newSlab[branch](shared),
		texts:     texts{newSlab[cell](shared)},
		index:     make(map[txn.ID]uint32),
		deadlines: survival.NewTable(0),
		parts:     newRegistry(),
		nodes:     newNodes(),
		tokens:    newTokens(),
		sessions:  newSessions(shared),
		kept:      newKept(Bootstrap{}, 0, shared),
		due:       make([]uint64, DrainBatch),
	}
}

// Apply carries out one entry. Entries come in the order of the log, each once.
func (m *Machine) Apply(e Entry) Effects {
	fx := Effects{Results: make([]Result, len(e.Commands))}
	m.fx, m.wall, m.entry = &fx, e.Wall, e.Index
	if e.Tick > m.tick {
		m.tick = e.Tick
		m.deadlines.Advance(e.Tick)
		m.kept.advance(e.Tick)
	}
	drained := m.drain()
	m.settleKept()
	m.forgetSessions()
	for i, c := range e.Commands {
		fx.Results[i] = m.command(c)
		m.settleKept()
	}
	m.drainSessions(DrainBatch - drained)
	m.settleKept()
	m.kept.trim()
	m.fx = nil
	return fx
}

func (m *Machine) command(c Command) Result {
	if b, ok := c.(Bootstrap); ok {
		return m.bootstrap(b)
	}
	if m.boot.Cluster == "" {
		return Result{Code: NotBootstrapped}
	}
	switch c := c.(type) {
	case Begin:
		return m.begin(c)
	case Enlist:
		return m.enlist(c)
	case Commit:
		return m.commit(c)
	case Vote:
		return m.vote(c)
	case Delegate:
		return m.delegate(c)
	case EndedByHand:
		return m.endedByHand(c)
	case Resolve:
		return m.resolve(c)
	case Rollback:
		return m.rollback(c)
	case Extend:
		return m.extend(c)
	case Done:
		return m.done(c)
	case Hazard:
		return m.hazard(c)
	case Forget:
		return m.forget(c)
	case AddParticipant:
		return m.addParticipant(c.Participant, AuditRecord{Action: ActionAddParticipant, Subject: c.Participant.Name})
	case RemoveParticipant:
		return m.removeParticipant(UnregisterParticipant{Name: c.Name})
	case RegisterParticipant:
		return m.registerParticipant(c)
	case UnregisterParticipant:
		return m.removeParticipant(c)
	case SetMember:
		return m.setMember(c.Member)
	case RemoveMember:
		return m.removeMember(c)
	case AddToken:
		return m.addToken(c)
	case RemoveToken:
		return m.removeToken(c)
	case Resume:
		return m.resume(c)
	case OpenSession:
		return m.openSession(c)
	case CloseSession:
		return m.closeSession(c)
	case ExpireSessions:
		return m.expireSessions(c)
	}
	return Result{Code: Malformed}
}

func (m *Machine) bootstrap(b Bootstrap) Result {
	switch {
	case !txn.ValidCluster(b.Cluster) || b.Interval <= 0 || b.Retention < 0:
		return Result{Code: Malformed}
	case m.boot.Cluster == "":
		m.boot = b
		m.kept = newKept(b, m.tick, m.shared)
	case m.boot != b:
		return Result{Code: Conflict}
	}
	return Result{}
}

// find gives the slot of a transaction, decided first if its time, or its session,
// is over. That of a kept outcome is good for the command that is being carried out.
func (m *Machine) find(id txn.ID) (uint32, bool) {
	i, ok := m.index[id]
	if !ok {
		return m.thaw(id)
	}
	if cause := m.over(m.txs.at(i)); cause != 0 {
		m.expire(i, cause)
	}
	return i, true
}

// answer is the result of a command on the transaction in slot i.
func (m *Machine) answer(i uint32, code Code) Result {
	r := m.txs.at(i)
	return Result{
		Code: code, State: r.state, Cause: r.cause, Hazard: m.everHazard(r), EndedByHand: r.is(endedByHand),
		Timeout: r.timeout, Survival: r.survival, Expiry: r.expiry,
	}
}

// refuse is answer for a refusal that one branch is the reason of.
func (m *Machine) refuse(i uint32, code Code, b txn.BranchID) Result {
	res := m.answer(i, code)
	res.Branch = b
	return res
}

// notActive refuses what only an active transaction accepts.
func (m *Machine) notActive(i uint32) Result {
	if m.txs.at(i).is(delegated) {
		return m.refuse(i, Delegated, 1)
	}
	return m.answer(i, Decided)
}

func (m *Machine) changed(r *record) {
	m.fx.Changes = append(m.fx.Changes, Change{r.id, r.state, r.cause, r.hazard})
}

func (m *Machine) nextSeq() uint64 {
	m.seq++
	return m.seq
}
