package node

import (
	"context"

	"github.com/txmgr/txmgr/node/audit"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// recoveryPaused reports whether the cluster was restored from a backup and no operator has
// resumed recovery since: no participant is called then.
func (n *Node) recoveryPaused() (paused bool) {
	n.fsm.View(func(m *machine.Machine) { paused = m.RecoveryPaused() })
	return paused
}

// ResumeRecovery implements [admin.Cluster].
func (n adminCalls) ResumeRecovery(ctx context.Context, by, reason string) error {
	const op = "recover resume"
	reason, err := audit.Reason(op, txn.ID{}, reason)
	if err != nil {
		return err
	}
	_, err = n.proposeCommand(ctx, op, machine.ResumeRecovery{By: audit.Operator(by), Reason: reason}, n.queueAfterResume)
	return err
}

// queueAfterResume gives recovery the transactions that were not queued during the pause. If
// another node leads meanwhile, it queues them when it takes over.
func (n *Node) queueAfterResume() {
	if r := n.recovery(); r != nil && !n.recoveryPaused() {
		n.queuePending(context.Background(), r)
	}
}

// proposeCommand proposes a command that concerns no transaction. onDone is as in
// [proposal.Queue.ProposeInTerm], and may be nil. A refusal comes with its result.
func (n *Node) proposeCommand(ctx context.Context, op string, c machine.Command, onDone func()) (machine.Result, error) {
	if err := n.requireLeader(); err != nil {
		return machine.Result{}, txn.Wrap(op, txn.ID{}, n.orLogFailure(err))
	}
	res, err := n.proposals.ProposeInTerm(ctx, 0, c, onDone)
	switch {
	case err != nil:
		return res, txn.Wrap(op, txn.ID{}, n.orLogFailure(err))
	case res.Code != machine.OK:
		return res, res.ToError(op, txn.ID{})
	}
	return res, nil
}
