package recovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// fakeLog is a log that works, in memory: it decides by votes, finishes by
// completion reports, and calls Add under its own lock like a state machine that
// applies entries.
type fakeLog struct {
	mu        sync.Mutex
	rec       *Recovery
	txs       map[txn.ID]*fakeTx
	parts     map[string]participant.Participant
	reports   map[txn.ID][][]plan.BranchResult // accepted ones
	left      int                              // pending transactions
	allDone   chan struct{}                    // closed when left falls to zero
	undone    int                              // calls of Pending
	lookups   int                              // calls of Lookup
	delay     time.Duration                    // of Report
	reportErr func(id txn.ID, call int) error
	calls     int // of Report
	lookupErr error
	memory    time.Duration // retention horizon of unknown transactions
	openErr   map[string]error
	held      bool
}

type fakeTx struct {
	state    txn.State
	cause    txn.Cause
	own      bool
	deadline time.Time
	branches []*fakeBranch
}

type fakeBranch struct {
	participant string
	web         bool // prepared and finished by the coordinator, also when own
	vote        txn.Vote
	finished    bool
	hazard      txn.Heuristic
}

func newLog() *fakeLog {
	return &fakeLog{
		txs:     make(map[txn.ID]*fakeTx),
		parts:   make(map[string]participant.Participant),
		reports: make(map[txn.ID][][]plan.BranchResult),
		openErr: make(map[string]error),
		allDone: make(chan struct{}),
	}
}

func (l *fakeLog) setRecovery(r *Recovery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec = r
}

// put adds a transaction with one unfinished branch at each participant; the
// branches of decided ones are prepared there.
func (l *fakeLog) put(id txn.ID, state txn.State, participants ...string) *fakeTx {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := &fakeTx{state: state}
	for i, name := range participants {
		x.branches = append(x.branches, &fakeBranch{participant: name})
		if res, ok := l.parts[name].(*fakeParticipant); ok && state.Decided() {
			res.prepare(txn.XID(cluster, id, txn.BranchID(i+1)))
		}
	}
	l.txs[id] = x
	l.left++
	return x
}

// putOwn is put for a transaction whose client completes its branches.
func (l *fakeLog) putOwn(id txn.ID, state txn.State, cause txn.Cause, participants ...string) {
	x := l.put(id, state, participants...)
	l.with(func() { x.own, x.cause = true, cause })
}

// putMixed is putOwn for a transaction of which the branches at participants called
// web are the coordinator's to prepare and to complete. The application has voted.
func (l *fakeLog) putMixed(id txn.ID, state txn.State, cause txn.Cause, participants ...string) *fakeTx {
	x := l.put(id, state, participants...)
	l.with(func() {
		x.own, x.cause = true, cause
		for i, b := range x.branches {
			if b.web = strings.HasPrefix(b.participant, "web"); !b.web {
				b.vote = txn.VotePrepared
				l.parts[b.participant].(*fakeParticipant).prepare(txn.XID(cluster, id, txn.BranchID(i+1)))
			}
		}
	})
	return x
}

// asked is how often Pending was called.
func (l *fakeLog) asked() (n int) {
	l.with(func() { n = l.undone })
	return n
}

func (l *fakeLog) Pending(id txn.ID) (plan.PendingTx, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.undone++
	x := l.txs[id]
	if x == nil {
		return plan.PendingTx{}, false
	}
	w := plan.PendingTx{ID: id, State: x.state, Cause: x.cause}
	switch x.state {
	case txn.Preparing:
		w.TimeLeft = time.Until(x.deadline)
	case txn.Committing, txn.RollingBack:
	default:
		return plan.PendingTx{}, false
	}
	for i, b := range x.branches {
		if b.finished || (x.state == txn.Preparing && b.vote != 0 && b.vote != txn.VoteDelegated) {
			continue
		}
		if x.state == txn.Preparing && x.cause != 0 && b != x.decider() {
			continue // only its end counts
		}
		w.Branches = append(w.Branches, plan.Branch{Participant: b.participant, Branch: x.branch(id, i)})
	}
	return w, true
}

func (x *fakeTx) branch(id txn.ID, i int) participant.Branch {
	n := txn.BranchID(i + 1)
	return participant.Branch{
		TX: id, ID: n, XID: txn.XID(cluster, id, n), Vote: x.branches[i].vote,
		SessionRef: "s" + n.String(), ClientCompletes: x.own && !x.branches[i].web,
	}
}

func (l *fakeLog) Report(ctx context.Context, id txn.ID, rs []plan.BranchResult) error {
	l.mu.Lock()
	delay, fail := l.delay, l.reportErr
	l.calls++
	call := l.calls
	l.mu.Unlock()
	if !sleep(ctx, delay) {
		return ctx.Err()
	}
	if fail != nil {
		if err := fail(id, call); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports[id] = append(l.reports[id], slices.Clone(rs))
	return l.applyLocked(id, rs)
}

func (l *fakeLog) applyLocked(id txn.ID, rs []plan.BranchResult) error {
	x := l.txs[id]
	if x == nil {
		return txn.ErrNotFound
	}
	for _, rep := range rs {
		b := x.branches[rep.Branch-1]
		l.endDelegatedLocked(id, x, b, rep.State)
		switch {
		case rep.Vote != 0:
			if x.state == txn.Preparing {
				b.vote = rep.Vote
				b.finished = rep.Vote != txn.VotePrepared
			}
		case x.state == txn.Committing && rep.State == txn.BranchRolledBack,
			x.state == txn.RollingBack && rep.State == txn.BranchCommitted:
			return fmt.Errorf("%w: %v is %v", txn.ErrConflict, id, x.state)
		default:
			b.finished, b.hazard = true, rep.Heuristic
		}
	}
	l.advanceLocked(id, x)
	return nil
}

// endDelegatedLocked makes the end of a branch that decides the decision.
func (l *fakeLog) endDelegatedLocked(id txn.ID, x *fakeTx, b *fakeBranch, end txn.BranchState) {
	if x.state.Decided() || b.vote != txn.VoteDelegated {
		return
	}
	if x.state, x.cause = txn.RollingBack, cmp.Or(x.cause, txn.CauseVoteNo); end == txn.BranchCommitted {
		x.state, x.cause = txn.Committing, 0
	}
	if len(x.branches) > 1 { // the others are to be driven
		l.decideLocked(id, x, x.state, x.cause)
	}
}

// delegate puts a transaction whose decision was delegated to its only branch.
func (l *fakeLog) delegate(id txn.ID, timeout time.Duration, participant string) {
	x := l.put(id, txn.Preparing, participant)
	l.with(func() { x.deadline, x.branches[0].vote = time.Now().Add(timeout), txn.VoteDelegated })
}

// appoint puts an active transaction whose last branch decides; the others are prepared.
func (l *fakeLog) appoint(id txn.ID, participants ...string) {
	x := l.put(id, txn.Active, participants...)
	l.with(func() {
		x.own = true
		last := len(participants) - 1
		x.branches[last].vote = txn.VoteDelegated
		for i, name := range participants[:last] {
			l.parts[name].(*fakeParticipant).prepare(txn.XID(cluster, id, txn.BranchID(i+1)))
		}
	})
}

// findOut makes the deadline, or a rollback, have the end of the appointed branch found out.
func (l *fakeLog) findOut(id txn.ID, cause txn.Cause) { l.decide(id, txn.Preparing, cause) }

// decider is the branch of an undecided transaction that decides by its own end; nil for none.
func (x *fakeTx) decider() *fakeBranch {
	if i := slices.IndexFunc(x.branches, func(b *fakeBranch) bool { return b.vote == txn.VoteDelegated }); i >= 0 && !x.state.Decided() {
		return x.branches[i]
	}
	return nil
}

// advanceLocked decides when all have voted, and finishes when all have ended.
func (l *fakeLog) advanceLocked(id txn.ID, x *fakeTx) {
	if x.state == txn.Preparing {
		no := slices.ContainsFunc(x.branches, func(b *fakeBranch) bool { return b.vote == txn.VoteNo })
		missing := slices.ContainsFunc(x.branches, func(b *fakeBranch) bool { return b.vote == 0 })
		switch {
		case no:
			l.decideLocked(id, x, txn.RollingBack, txn.CauseVoteNo)
		case !missing:
			l.decideLocked(id, x, txn.Committing, 0)
		}
	}
	if slices.ContainsFunc(x.branches, func(b *fakeBranch) bool { return !b.finished }) {
		return
	}
	switch x.state {
	case txn.Committing:
		x.state = txn.Committed
	case txn.RollingBack:
		x.state = txn.RolledBack
	default:
		return
	}
	if l.left--; l.left > 0 {
		return
	}
	select {
	case <-l.allDone:
	default:
		close(l.allDone)
	}
}

func (l *fakeLog) decideLocked(id txn.ID, x *fakeTx, state txn.State, cause txn.Cause) {
	x.state, x.cause = state, cause
	l.rec.Add(id) // under the lock, as documented
}

// decide decides from outside, for example by a timeout.
func (l *fakeLog) decide(id txn.ID, state txn.State, cause txn.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decideLocked(id, l.txs[id], state, cause)
}

// ack is the client's completion report for all branches that are its own.
func (l *fakeLog) ack(id txn.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.txs[id]
	for _, b := range x.branches {
		if !b.web {
			l.endDelegatedLocked(id, x, b, txn.BranchCommitted)
			b.finished = true
		}
	}
	l.advanceLocked(id, x)
}

func (l *fakeLog) Lookup(_ context.Context, keys []plan.Key) ([]plan.BranchStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookups++
	if l.lookupErr != nil {
		return nil, l.lookupErr
	}
	known := make([]plan.BranchStatus, len(keys))
	for i, k := range keys {
		x := l.txs[k.TX]
		if x == nil {
			known[i].RetentionHorizon = l.memory
			continue
		}
		known[i].State = x.state
		if d := x.decider(); d != nil && x.state == txn.Active {
			known[i].Decider = plan.Branch{Participant: d.participant, Branch: x.branch(k.TX, slices.Index(x.branches, d))}
		}
		for _, b := range x.branches {
			known[i].Heuristic = max(known[i].Heuristic, b.hazard)
		}
		if n := int(k.Branch); n <= len(x.branches) {
			known[i].Branch = x.branch(k.TX, n-1)
			known[i].Unfinished = (x.state == txn.Committing || x.state == txn.RollingBack) && !x.branches[n-1].finished
		}
	}
	return known, nil
}

func (l *fakeLog) Participant(_ context.Context, name string) (participant.Participant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openErr[name]; err != nil {
		return nil, err
	}
	p := l.parts[name]
	if p == nil {
		return nil, fmt.Errorf("participant %q: %w", name, txn.ErrNotFound)
	}
	return p, nil
}

func (l *fakeLog) Participants() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name := range l.parts {
		names = append(names, name)
	}
	return names
}

func (l *fakeLog) RecoveryPaused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// failReports defines which reports are refused.
func (l *fakeLog) failReports(f func(id txn.ID, call int) error) { l.with(func() { l.reportErr = f }) }

// told is how often Report was called.
func (l *fakeLog) told() (n int) {
	l.with(func() { n = l.calls })
	return n
}

// renew makes allDone wait for what is put from now on.
func (l *fakeLog) renew() { l.with(func() { l.allDone = make(chan struct{}) }) }

// with changes or reads the log under its lock.
func (l *fakeLog) with(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

// state returns the state of a transaction.
func (l *fakeLog) state(id txn.ID) txn.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.txs[id].state
}

// hazards returns the heuristic outcome of each branch.
func (l *fakeLog) hazards(id txn.ID) []txn.Heuristic {
	l.mu.Lock()
	defer l.mu.Unlock()
	var hs []txn.Heuristic
	for _, b := range l.txs[id].branches {
		hs = append(hs, b.hazard)
	}
	return hs
}

// accepted returns the reports that were recorded for a transaction.
func (l *fakeLog) accepted(id txn.ID) [][]plan.BranchResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reports[id])
}

// forgetfulLog accepts reports and does nothing about them.
type forgetfulLog struct{ *fakeLog }

func (l *forgetfulLog) Report(context.Context, txn.ID, []plan.BranchResult) error { return nil }
