package recoverylog

import (
	"slices"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Pending implements [recovery.Log]. While recovery is paused nothing is pending.
func (l *Log) Pending(id txn.ID) (recovery.PendingTx, bool) {
	var w recovery.PendingTx
	var expiry, tick survival.Tick
	var askOutcome bool
	l.View(func(m *machine.Machine) {
		o, known := m.Lookup(id)
		if !known || m.RecoveryPaused() || o.State.Finished() || o.State == txn.Active {
			return
		}
		t, _ := m.Get(id)
		w = recovery.PendingTx{ID: id, State: t.State, Cause: t.Cause}
		expiry, tick = t.Expiry, m.Tick()
		// Its resource has reported that it will not end it; or it was appointed, and the time is over.
		askOutcome = t.EndAsked()
		for k := range t.Branches {
			b := &t.Branches[k]
			if b.State.Finished() || t.State == txn.Preparing && !awaited(&t, txn.BranchID(k+1)) {
				continue
			}
			w.Branches = append(w.Branches, recovery.Branch{Participant: b.Participant, Branch: BranchOf(m, &t, txn.BranchID(k+1))})
		}
	})
	if w.State == txn.Preparing && expiry > tick && !askOutcome {
		w.TimeLeft = l.Clock.Remaining(expiry)
	}
	return w, len(w.Branches) > 0
}

// awaited reports whether recovery needs something of a branch before the decision: the end of the one that
// decides, and then of no other; or else the vote.
func awaited(t *machine.Transaction, id txn.BranchID) bool {
	if decider := t.Decider(); decider != 0 {
		return id == decider
	}
	return t.Branches[id-1].Vote == 0
}

// BranchOf returns a branch in the form that its participant needs.
func BranchOf(m *machine.Machine, t *machine.Transaction, id txn.BranchID) participant.Branch {
	b := &t.Branches[id-1]
	boot, _ := m.Bootstrap()
	return participant.Branch{
		TX: t.ID, ID: id, XID: txn.XID(boot.Cluster, t.ID, id), Vote: b.Vote, Payload: b.Payload,
		SessionRef: b.SessionRef, ClientCompletes: t.ClientCompletes && !coordinatorPrepares(m, b.Participant), BeforeRestore: t.BeforeRestore,
	}
}

// coordinatorPrepares reports whether the coordinator asks the participant for votes, in which
// case it also finishes the branches there.
func coordinatorPrepares(m *machine.Machine, name string) bool {
	p, _ := m.Participant(name)
	return p.CoordinatorPrepares
}

// DeferToClients leaves transactions to their clients for the grace period, except those that need
// an action before it ends. In the usual case, where the coordinator has no branch to finish and
// nothing is delegated, it only reads the states.
func (l *Log) DeferToClients(r *recovery.Recovery, ids []txn.ID) {
	var urgent []txn.ID
	deferred := make([]txn.ID, 0, len(ids))
	soon := l.Clock.LastWithin(r.ClientGrace())
	l.View(func(m *machine.Machine) {
		mixed := slices.ContainsFunc(m.Participants(), func(p machine.Registration) bool {
			return p.CoordinatorPrepares && m.UnfinishedBranches(p.Name) > 0
		})
		for _, id := range ids {
			if isUrgent(m, id, mixed, soon) {
				urgent = append(urgent, id)
			} else {
				deferred = append(deferred, id)
			}
		}
	})
	r.Add(urgent...)
	r.DeferToClient(deferred...)
}

// isUrgent reports whether recovery must process a transaction within the grace period: because
// the coordinator has a branch to finish, or a delegated decision must be resolved. mixed says that
// the former is possible at all, and soon is the last tick within the grace period.
func isUrgent(m *machine.Machine, id txn.ID, mixed bool, soon survival.Tick) bool {
	o, _ := m.Lookup(id)
	if !mixed && o.State != txn.Preparing {
		return false
	}
	t, _ := m.Get(id)
	if t.Delegated() {
		return t.Expiry <= soon
	}
	return slices.ContainsFunc(t.Branches, func(b machine.TransactionBranch) bool {
		return !b.State.Finished() && coordinatorPrepares(m, b.Participant)
	})
}
