package machine

import (
	"sync/atomic"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// ExpireBatch is how many records of due transactions one entry moves, and
// forgetBatch how many ended sessions one entry forgets.
const (
	ExpireBatch = 4096
	forgetBatch = 4096
)

// Machine is the state that the log drives. Make one with [New] or [Restore].
type Machine struct {
	boot Bootstrap
	tick survival.Tick
	seq  uint64

	txs      slab.Slab[record]
	branches slab.Slab[branch]
	strings  slab.Strings
	shared   *atomic.Int32

	index        map[txn.ID]uint32 // for look-ups, never ranged over
	deadlines    *survival.Table   // of the undecided, by slot
	participants participantRegistry
	retained     retained
	sessions     sessions
	auditLog     auditLog
	membership   membership
	tokens       tokens

	incarnation    uint64 // how often the state was restored from a backup
	recoveryPaused bool   // since the last restore recovery has not been resumed
	resumedAt      int64  // when it was resumed: leader's wall clock, milliseconds since 1970
	restored       int    // transactions that are marked as from before the last restore

	completing int // decided (committing or rolling back), phase two not complete
	delegated  int // undecided; only the end of their branch decides
	heuristics int // finished or not, with a heuristic outcome
	committed  uint64
	rolledBack ByCause

	expireBuf []uint64 // scratch of expireBatch
	toRetain  []uint32 // records that go onto the belt, in this order, before the next command
	loaded    uint32   // record of the outcome that the command is about, which is on the belt; 0 for none
	decodeBuf Transaction
	scratch   []byte
	// The entry that is being applied.
	fx    *Effects
	wall  int64
	entry uint64
}

// New returns the state before the first entry.
func New() *Machine {
	shared := new(atomic.Int32)
	return &Machine{
		shared:       shared,
		txs:          slab.New[record](shared),
		branches:     slab.New[branch](shared),
		strings:      slab.NewStrings(shared),
		index:        make(map[txn.ID]uint32),
		deadlines:    survival.NewTable(0),
		participants: newParticipantRegistry(),
		membership:   newMembership(),
		tokens:       newTokens(),
		sessions:     newSessions(shared),
		retained:     newRetained(Bootstrap{}, 0, shared),
		expireBuf:    make([]uint64, ExpireBatch),
	}
}

// Apply carries out one entry. Entries come in the order of the log, each once.
func (m *Machine) Apply(e Entry) Effects {
	fx := Effects{Results: make([]Result, len(e.Commands))}
	m.fx, m.wall, m.entry = &fx, e.Wall, e.Index
	if e.Tick > m.tick {
		m.tick = e.Tick
		m.deadlines.Advance(e.Tick)
		m.retained.advance(e.Tick)
	}
	drained := m.expireBatch()
	m.flushRetained()
	m.forgetSessions()
	for i, c := range e.Commands {
		fx.Results[i] = m.command(c)
		m.flushRetained()
	}
	m.expireSessionBatch(ExpireBatch - drained)
	m.flushRetained()
	m.retained.trim()
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
	case EndedByApplication:
		return m.markEndedByApplication(c)
	case Resolve:
		return m.resolve(c)
	case Rollback:
		return m.rollback(c)
	case Extend:
		return m.extend(c)
	case ReportCompletion:
		return m.reportCompletion(c)
	case ReportHeuristic:
		return m.reportHeuristic(c)
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
	case RecordAction:
		return m.recordAction(c)
	case ResumeRecovery:
		return m.resumeRecovery(c)
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
	case !txn.ValidClusterID(b.Cluster) || b.Interval <= 0 || b.Retention < 0:
		return Result{Code: Malformed}
	case m.boot.Cluster == "":
		m.boot = b
		m.retained = newRetained(b, m.tick, m.shared)
	case m.boot != b:
		return Result{Code: Conflict}
	}
	return Result{}
}

// find returns the slot of a transaction, which it first decides if its deadline has passed or
// its session has ended. The slot of a retained outcome is valid for the command that is being
// carried out.
func (m *Machine) find(id txn.ID) (uint32, bool) {
	i, ok := m.index[id]
	if !ok {
		return m.loadRetained(id)
	}
	if cause := m.dueCause(m.txs.At(i)); cause != 0 {
		m.expireNow(i, cause)
	}
	return i, true
}

// answer is the result of a command on the transaction in slot i.
func (m *Machine) answer(i uint32, code Code) Result {
	r := m.txs.At(i)
	return Result{
		Code: code, State: r.state, Cause: r.cause, Heuristic: m.reportedHeuristic(r), EndedByApplication: r.is(endedByApplication),
		Timeout: r.timeout, Survival: r.survival, Expiry: r.expiry,
	}
}

// refuse is answer for a refusal because of one branch.
func (m *Machine) refuse(i uint32, code Code, b txn.BranchID) Result {
	res := m.answer(i, code)
	res.Branch = b
	return res
}

// notActive refuses a command that only an active transaction accepts.
func (m *Machine) notActive(i uint32) Result {
	if m.txs.At(i).is(delegated) {
		return m.refuseDelegated(i)
	}
	return m.answer(i, Decided)
}

func (m *Machine) emitChange(r *record) {
	m.fx.Changes = append(m.fx.Changes, Change{r.id, r.state, r.cause, r.heuristic})
}

func (m *Machine) nextSeq() uint64 {
	m.seq++
	return m.seq
}
