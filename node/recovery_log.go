package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// recoveryLog implements the log of package recovery.
type recoveryLog struct{ *Node }

var _ recovery.Log = recoveryLog{}

// Pending implements [recovery.Log]. While recovery is paused nothing is pending.
func (n recoveryLog) Pending(id txn.ID) (recovery.PendingTx, bool) {
	var w recovery.PendingTx
	var expiry, tick survival.Tick
	var askOutcome bool
	n.fsm.View(func(m *machine.Machine) {
		o, known := m.Lookup(id)
		if !known || m.RecoveryPaused() || o.State.Finished() || o.State == txn.Active {
			return
		}
		t, _ := m.Get(id)
		w = recovery.PendingTx{ID: id, State: t.State, Cause: t.Cause}
		expiry, tick = t.Expiry, m.Tick()
		askOutcome = t.Delegated() && t.EndedByApplication() // its resource has reported that it will not end it
		for k := range t.Branches {
			b := &t.Branches[k]
			if b.State.Finished() || t.State == txn.Preparing && b.Vote != 0 && !t.Delegated() {
				continue
			}
			w.Branches = append(w.Branches, recovery.Branch{Participant: b.Participant, Branch: branchDescriptor(m, &t, txn.BranchID(k+1))})
		}
	})
	if w.State == txn.Preparing && expiry > tick && !askOutcome {
		w.TimeLeft = n.clock.Remaining(expiry)
	}
	return w, len(w.Branches) > 0
}

// branchDescriptor returns a branch in the form that its participant needs.
func branchDescriptor(m *machine.Machine, t *machine.Transaction, id txn.BranchID) participant.Branch {
	b := &t.Branches[id-1]
	boot, _ := m.Bootstrap()
	return participant.Branch{
		TX: t.ID, ID: id, XID: txn.XID(boot.Cluster, t.ID, id), Vote: b.Vote, Payload: b.Payload,
		SessionRef: b.SessionRef, ClientCompletes: t.ClientCompletes && !coordinatorPrepares(m, b.Participant),
	}
}

// coordinatorPrepares reports whether the coordinator asks the participant for votes, in which
// case it also finishes the branches there.
func coordinatorPrepares(m *machine.Machine, name string) bool {
	p, _ := m.Participant(name)
	return p.CoordinatorPrepares
}

// deferToClients leaves transactions to their clients for the grace period, except those that need
// an action before it ends. In the usual case, where the coordinator has no branch to finish and
// nothing is delegated, it only reads the states.
func (n *Node) deferToClients(r *recovery.Recovery, ids []txn.ID) {
	var urgent []txn.ID
	deferred := make([]txn.ID, 0, len(ids))
	soon := n.clock.LastWithin(r.ClientGrace())
	n.fsm.View(func(m *machine.Machine) {
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

// Report implements [recovery.Log]: completion reports and votes of one transaction are proposed
// together.
func (n recoveryLog) Report(ctx context.Context, id txn.ID, rs []recovery.BranchResult) error {
	failpoint.Hit("finding received")
	for _, c := range n.reportCommands(id, rs) {
		res, err := n.proposals.Propose(ctx, c)
		failpoint.Hit("finding applied")
		if err != nil {
			return err
		}
		if res.Code != machine.OK && res.Code != machine.Decided {
			// The log has another result already: another caller has reported otherwise. Work that
			// is left, if any, is requested again.
			n.conf.Logger.Warn("branch result rejected by the state machine", "tx", id, "finding", fmt.Sprintf("%T", c), "code", res.Code)
		}
	}
	return nil
}

// reportCommands returns the commands that make reports durable.
func (n recoveryLog) reportCommands(id txn.ID, rs []recovery.BranchResult) (commands []machine.Command) {
	var acks []txn.CompletionReport
	votes := machine.Vote{ID: id}
	for _, r := range rs {
		switch {
		case r.State != 0:
			acks = append(acks, txn.CompletionReport{Branch: r.Branch, State: r.State})
		case r.Vote == txn.VoteEndedByApplication:
			commands = append(commands, machine.EndedByApplication{ID: id, Branch: r.Branch, Reason: n.voteReason(id, r)})
		case r.Vote != 0:
			votes.Votes = append(votes.Votes, txn.BranchVote{Branch: r.Branch, Vote: r.Vote})
			if r.Vote == txn.VoteNo && votes.Reason == "" { // the first one decides
				votes.Reason = n.voteReason(id, r)
			}
		default:
			commands = append(commands, machine.ReportHeuristic{ID: id, Branch: r.Branch, Heuristic: r.Heuristic, Detail: textutil.Limit(r.Detail, txn.MaxReason)})
		}
	}
	if len(acks) > 0 {
		commands = append(commands, machine.ReportCompletion{ID: id, Reports: acks})
	}
	if len(votes.Votes) > 0 {
		commands = append(commands, votes)
	}
	return commands
}

// voteReason returns why a branch voted no, with the name of its participant.
func (n recoveryLog) voteReason(id txn.ID, r recovery.BranchResult) string {
	return textutil.Limit(strings.TrimSuffix(n.participantName(id, r.Branch)+": "+r.Detail, ": "), txn.MaxReason)
}

// participantName names the participant of a branch, for operators.
func (n recoveryLog) participantName(id txn.ID, b txn.BranchID) string {
	t, _ := n.stored(id)
	if b < 1 || int(b) > len(t.Branches) {
		return b.String()
	}
	return t.Branches[b-1].Participant
}

// Lookup implements [recovery.Log]. An entry that was acknowledged before the call was acknowledged
// by this leader, after it had applied the entry, or by an earlier one; and this one applied all
// entries of earlier leaders before it began to lead. So it is enough that it still leads.
func (n recoveryLog) Lookup(ctx context.Context, keys []recovery.Key) ([]recovery.BranchStatus, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, err
	}
	known := make([]recovery.BranchStatus, len(keys))
	n.fsm.View(func(m *machine.Machine) {
		horizon := retentionHorizon(m)
		for i, k := range keys {
			t, ok := m.Get(k.TX)
			if !ok {
				known[i].RetentionHorizon = horizon
				if made := k.TX.Time(); m.MayPredateBackup(made.UnixMilli(), recovery.ClockSlack.Milliseconds()) {
					// As if everything since its begin were remembered: then it
					// has certainly been lost.
					known[i].RetentionHorizon = max(horizon, time.Since(made).Round(time.Minute)+recovery.ClockSlack)
				}
				continue
			}
			known[i].State, known[i].Heuristic = t.State, t.Heuristic
			if k.Branch >= 1 && int(k.Branch) <= len(t.Branches) {
				known[i].Branch = branchDescriptor(m, &t, k.Branch)
				b := &t.Branches[k.Branch-1]
				known[i].Unfinished = (t.State.Decided() || t.Delegated()) && !b.State.Finished()
			}
		}
	})
	return known, nil
}

// retentionHorizon is the least time for which every outcome is remembered: since the horizon, but
// without the tick of the horizon itself, since an outcome may have been late in its tick. It is
// never zero, which would mean that nothing is known.
func retentionHorizon(m *machine.Machine) time.Duration {
	boot, _ := m.Bootstrap()
	if boot.Interval <= 0 {
		return 0
	}
	retention := max(survival.Tick(boot.Retention/boot.Interval), 1) - 1 // also of a young cluster, which has forgotten nothing
	if horizon := m.RetentionHorizon(); horizon > 0 {
		retention = min(retention, m.Tick()-horizon)
	}
	return max(1, time.Duration(retention)*boot.Interval)
}

// Participant implements [recovery.Log].
func (n recoveryLog) Participant(ctx context.Context, name string) (participant.Participant, error) {
	return n.participants.Get(ctx, name)
}

// RecoveryPaused implements [recovery.Log].
func (n recoveryLog) RecoveryPaused() bool { return n.recoveryPaused() }

// Participants implements [recovery.Log].
func (n recoveryLog) Participants() []string {
	var names []string
	n.fsm.View(func(m *machine.Machine) {
		for _, r := range m.Participants() {
			if !r.Removed {
				names = append(names, r.Name)
			}
		}
	})
	return names
}
