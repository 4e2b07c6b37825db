package node

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// proposeTx proposes a command on one transaction and converts a refusal to an error.
func (n *Node) proposeTx(ctx context.Context, op string, id txn.ID, c machine.Command) (machine.Result, error) {
	return n.proposeTxInTerm(ctx, 0, op, id, c, nil)
}

// proposeTxInTerm is proposeTx, with term as in [proposal.Queue.ProposeInTerm]. reserve, which may
// be nil, reserves what the command occupies until the log has it; release, which may be nil, gives
// that back.
func (n *Node) proposeTxInTerm(ctx context.Context, term uint64, op string, id txn.ID, c machine.Command, reserve func() (release func(), err error)) (machine.Result, error) {
	release, err := n.admitTx(op, id, reserve)
	if err != nil {
		return machine.Result{}, err
	}
	// No return between the reservation and the queue, which calls release in every case.
	res, err := n.proposals.ProposeInTerm(ctx, term, c, release)
	return n.concludeTx(op, id, res, err)
}

// proposeTxAsync is proposeTxInTerm without a goroutine, as [proposal.Queue.ProposeAsync].
func (n *Node) proposeTxAsync(ctx context.Context, term uint64, op string, id txn.ID, c machine.Command, reserve func() (release func(), err error), answer func(machine.Result, error)) {
	release, err := n.admitTx(op, id, reserve)
	if err != nil {
		answer(machine.Result{}, err)
		return
	}
	n.proposals.ProposeAsync(ctx, term, c, release, func(res machine.Result, err error) { answer(n.concludeTx(op, id, res, err)) })
}

// admitTx refuses what cannot be proposed here and now, and reserves.
func (n *Node) admitTx(op string, id txn.ID, reserve func() (release func(), err error)) (release func(), err error) {
	if id.IsZero() {
		return nil, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "no transaction id given"}
	}
	if err := n.requireLeader(); err != nil {
		return nil, txn.Wrap(op, id, err)
	}
	failpoint.Hit(op + " received")
	if reserve == nil {
		return nil, nil
	}
	if release, err = reserve(); err != nil {
		return nil, txn.Wrap(op, id, err)
	}
	return release, nil
}

// concludeTx is the end of each proposal: it converts a refusal to an error.
func (n *Node) concludeTx(op string, id txn.ID, res machine.Result, err error) (machine.Result, error) {
	failpoint.Hit(op + " applied")
	if err != nil {
		return res, txn.Wrap(op, id, n.orLogFailure(err))
	}
	if res.Code == machine.OK {
		return res, nil
	}
	return res, res.ToError(op, id)
}

// orLogFailure returns err, unless the log has failed: then the outcome of the call is unknown.
func (n *Node) orLogFailure(err error) error {
	if failure := n.life.failure(); failure != nil {
		return fmt.Errorf("%w: the log has failed: %w", txn.ErrInDoubt, failure)
	}
	return err
}
