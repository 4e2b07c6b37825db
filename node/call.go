package node

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// call proposes a command on one transaction and turns a refusal into an error.
func (n *Node) call(ctx context.Context, op string, id txn.ID, c machine.Command) (machine.Result, error) {
	return n.callIn(ctx, 0, op, id, c, nil)
}

// callIn is call, with term as in [batcher.proposeIn]. reserve, which may be nil, takes what the command occupies until
// the log has it; over gives that back, and may be nil.
func (n *Node) callIn(ctx context.Context, term uint64, op string, id txn.ID, c machine.Command, reserve func() (over func(), err error)) (machine.Result, error) {
	if id.IsZero() {
		return machine.Result{}, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "no transaction id given"}
	}
	if err := n.serves(); err != nil {
		return machine.Result{}, txn.Wrap(op, id, err)
	}
	failpoint.Hit(op + " received")
	var over func()
	if reserve != nil {
		var err error
		if over, err = reserve(); err != nil {
			return machine.Result{}, txn.Wrap(op, id, err)
		}
	}
	// No return between the reservation and proposeIn, which calls over in every case.
	res, err := n.batcher.proposeIn(ctx, term, c, over)
	failpoint.Hit(op + " applied")
	if err != nil {
		return res, txn.Wrap(op, id, n.unless(err))
	}
	if res.Code == machine.OK {
		return res, nil
	}
	return res, res.Refusal(op, id)
}

// unless gives err, unless the log has failed: then nobody knows what became of the
// call.
func (n *Node) unless(err error) error {
	if p := n.failed.Load(); p != nil {
		return fmt.Errorf("%w: the log has failed: %w", txn.ErrInDoubt, *p)
	}
	return err
}
