package node

import (
	"context"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// onHold reports whether the cluster was restored from a backup, and nobody has said
// since that it may act: participants are told nothing then.
func (n *Node) onHold() (held bool) {
	n.fsm.View(func(m *machine.Machine) { held = m.Held() })
	return held
}

// Resume ends the time in which a restored cluster is held: what is decided is driven
// from now on, and participants are swept. That of a cluster that is not held changes
// nothing.
//
// [txn.ErrInvalid]: no reason was given, or it is too long.
func (n *Node) Resume(ctx context.Context, by, reason string) error {
	const op = "recover resume"
	reason, err := reasonOf(op, txn.ID{}, reason)
	if err != nil {
		return err
	}
	_, err = n.order(ctx, op, machine.Resume{By: personOf(by), Reason: reason}, n.feedResumed)
	return err
}

// feedResumed gives recovery what it was not told while the state was held. Another
// node that leads meanwhile does so when it takes over.
func (n *Node) feedResumed() {
	if r := n.recovery.Load(); r != nil && !n.onHold() {
		n.feedUndone(context.Background(), r)
	}
}

// order proposes a command that is about no transaction. over is as in
// [batcher.proposeIn], and may be nil. A refusal comes with its result.
func (n *Node) order(ctx context.Context, op string, c machine.Command, over func()) (machine.Result, error) {
	if err := n.serves(); err != nil {
		return machine.Result{}, txn.Wrap(op, txn.ID{}, n.unless(err))
	}
	res, err := n.batcher.proposeIn(ctx, 0, c, over)
	switch {
	case err != nil:
		return res, txn.Wrap(op, txn.ID{}, n.unless(err))
	case res.Code != machine.OK:
		return res, res.Refusal(op, txn.ID{})
	}
	return res, nil
}
