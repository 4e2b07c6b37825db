package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/node/recoverylog"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Begin implements [txn.Manager].
func (n *Node) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	c, term, err := n.beginCommand(&o)
	if err != nil {
		return txn.BeginResult{}, txn.Wrap("begin", o.ID, err)
	}
	res, err := n.proposeTxInTerm(ctx, term, "begin", o.ID, c, func() (func(), error) { return n.admission.quotas.ReserveBegin(o) })
	return n.beginResult(o, res, err)
}

// beginCommand checks and completes the options of a begin, and returns its command and the term
// in which that may be proposed.
func (n *Node) beginCommand(o *txn.Options) (c machine.Begin, term uint64, err error) {
	if err := o.Check(); err != nil {
		return c, 0, err
	}
	o.Timeout = cmp.Or(o.Timeout, n.conf.DefaultTimeout)
	// Before the clock is read: that of a follower gives no deadlines.
	err = n.requireLeader()
	*o = n.withID(*o)
	var d deadline
	if err == nil {
		d, err = n.deadline(o.Timeout)
	}
	if err == nil {
		err = cmp.Or(n.checkOpenLimit(), recoverylog.CheckAppointed(n.fsm.View, *o, n.conf.wall()))
	}
	if err != nil {
		return c, 0, err
	}
	c = machine.Begin{ID: o.ID, Name: o.Name, Timeout: o.Timeout, Survival: d.survival, Expiry: d.expiry, Labels: machine.SortedLabels(o.Labels), Session: o.Session, Mark: o.Mark}
	for _, e := range o.Branches {
		c.Branches = append(c.Branches, machine.Branch(e))
	}
	return c, d.term, nil
}

// beginResult is the answer to a begin whose command has this result.
func (n *Node) beginResult(o txn.Options, res machine.Result, err error) (txn.BeginResult, error) {
	if err != nil {
		return txn.BeginResult{}, res.ExplainBegin(err, o)
	}
	b := txn.BeginResult{ID: o.ID, Timeout: res.Timeout, SurvivalIndex: res.Survival, ExpiryTick: uint64(res.Expiry), Mark: res.Mark, Appoints: true}
	cluster := n.clusterID()
	for i, e := range o.Branches {
		id := txn.BranchID(i + 1)
		b.Branches = append(b.Branches, txn.Branch{ID: id, Participant: e.Participant, XID: txn.XID(cluster, o.ID, id)})
	}
	return b, nil
}

// NameTransaction implements [txn.Namer]. What this node would refuse now is begun by a call.
func (n *Node) NameTransaction(_ context.Context, o txn.Options) (txn.Naming, bool) {
	o.Timeout = cmp.Or(o.Timeout, n.conf.DefaultTimeout)
	if _, err := n.deadline(o.Timeout); err != nil || n.requireLeader() != nil || n.checkOpenLimit() != nil {
		return txn.Naming{}, false
	}
	tick, _ := n.clock.Now() // ahead of the log where nothing was written for a while
	n.fsm.View(func(m *machine.Machine) { o.Mark = m.Mark() })
	o.ID, o.Mark.Tick = random.TransactionID(), max(o.Mark.Tick, uint64(tick)+1)
	return txn.Naming{Options: o, Cluster: n.clusterID(), Hints: &n.admission.branchHints, Appoints: true}, true
}

// withID gives a begin its id; if the caller knows the id but no mark, the mark follows from the
// time of the id. An id that is created here is known to no other caller: it needs no mark, since
// its begin cannot be repeated.
func (n *Node) withID(o txn.Options) txn.Options {
	switch {
	case o.ID.IsZero():
		o.ID, o.Mark = random.TransactionID(), txn.Mark{}
	case o.Mark.IsZero():
		now := n.conf.wall()
		tick, _ := n.clock.Now()
		n.fsm.View(func(m *machine.Machine) { o.Mark = m.MarkForID(o.ID, max(tick, m.Tick()), now, recovery.ClockSlack) })
	}
	return o
}

// checkOpenLimit refuses new transactions beyond the configured limit, for which memory was
// planned.
func (n *Node) checkOpenLimit() error {
	if unfinished := n.admission.unfinished.Load(); unfinished >= int64(n.conf.MaxOpen) {
		return fmt.Errorf("%w: %d transactions are not finished, the most that are allowed", txn.ErrUnavailable, unfinished)
	}
	return nil
}

// Enlist implements [txn.Manager].
func (n *Node) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	if err := e.Check(); err != nil {
		return txn.Branch{}, txn.Wrap("enlist", id, err)
	}
	c := machine.Enlist{ID: id, Branch: machine.Branch(e)}
	res, err := n.proposeTxInTerm(ctx, 0, "enlist", id, c, func() (func(), error) { return n.admission.quotas.ReserveEnlist(id, e) })
	if err != nil {
		return txn.Branch{}, res.ExplainEnlist(err, e.Participant)
	}
	return txn.Branch{ID: res.Branch, Participant: e.Participant, XID: txn.XID(n.clusterID(), id, res.Branch)}, nil
}

// Rollback implements [txn.Manager].
func (n *Node) Rollback(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	if len(reason) > txn.MaxReason {
		return txn.Outcome{}, tooLongError("rollback", id, "reason", len(reason))
	}
	res, err := n.proposeTx(ctx, "rollback", id, machine.Rollback{ID: id, Cause: txn.CauseClient, Reason: reason})
	if err == nil && res.State == txn.Preparing { // a branch that decides has to be asked
		i, err := n.Wait(ctx, id, txn.UntilDecided)
		o := i.Outcome()
		if err == nil && (o.State.Commits() || o.EndedByApplication) {
			res = machine.Result{Code: machine.Decided, State: o.State, Cause: o.Cause, Heuristic: o.Heuristic, EndedByApplication: o.EndedByApplication}
			err = n.withReason(res.ToError("rollback", id))
		}
		return o, err
	}
	if err == nil && res.EndedByApplication {
		err = n.withReason(res.ToError("rollback", id))
	}
	return outcomeOf(res), err
}

// Extend implements [txn.Manager].
func (n *Node) Extend(ctx context.Context, id txn.ID, timeout time.Duration) (txn.Outcome, error) {
	if err := n.requireLeader(); err != nil {
		return txn.Outcome{}, txn.Wrap("extend", id, err)
	}
	d, err := n.deadline(timeout)
	if err != nil {
		return txn.Outcome{}, txn.Wrap("extend", id, err)
	}
	res, err := n.proposeTxInTerm(ctx, d.term, "extend", id, machine.Extend{ID: id, Timeout: timeout, Survival: d.survival, Expiry: d.expiry}, nil)
	return outcomeOf(res), err
}

// ReportCompletion implements [txn.Manager].
func (n *Node) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	if txn.DelayAllowed(ctx) {
		return n.proposals.ProposeDelayed(machine.ReportCompletion{ID: id, Reports: acks})
	}
	_, err := n.proposeTx(ctx, "done", id, machine.ReportCompletion{ID: id, Reports: acks})
	return err
}

// Wait implements [txn.Manager]. The waiter only signals when a check is worthwhile:
// the answer is always that of a Get.
func (n *Node) Wait(ctx context.Context, id txn.ID, goal txn.Goal) (txn.Info, error) {
	for {
		info, err := n.Get(ctx, id)
		if err != nil || reached(info.State, goal) {
			return info, err
		}
		err = n.notifier.Wait(ctx, id, func() bool { return n.waitDone(ctx, id, goal) })
		if err == nil {
			continue
		}
		if t, ok := n.stored(id); ok {
			info = n.query().Info(&t)
		}
		if errors.Is(err, purgatory.ErrStopped) {
			return info, &txn.Error{Op: "wait", ID: id, State: info.State, Err: txn.ErrUnavailable, Detail: "the coordinator is stopping"}
		}
		return info, &txn.Error{Op: "wait", ID: id, State: info.State, Err: txn.ErrWaitTimeout, Detail: "the transaction goes on"}
	}
}

func reached(s txn.State, goal txn.Goal) bool {
	return s.Finished() || goal == txn.UntilDecided && s.Decided()
}

// waitDone reports whether a wait has reached its goal, or cannot reach it here.
func (n *Node) waitDone(ctx context.Context, id txn.ID, goal txn.Goal) bool {
	if n.life.failure() != nil || !txn.StaleAllowed(ctx) && !n.isLeader() {
		return true
	}
	var o txn.Outcome
	var known bool
	n.fsm.View(func(m *machine.Machine) { o, known = m.Lookup(id) })
	return !known || reached(o.State, goal)
}

func outcomeOf(r machine.Result) txn.Outcome {
	return txn.Outcome{State: r.State, Cause: r.Cause, Heuristic: r.Heuristic, EndedByApplication: r.EndedByApplication}
}
