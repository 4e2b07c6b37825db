package node

import (
	"context"
	"iter"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/node/query"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Get implements [txn.Manager].
func (n *Node) Get(ctx context.Context, id txn.ID) (txn.Info, error) {
	if err := n.requireReadable(ctx); err != nil {
		return txn.Info{}, txn.Wrap("get", id, err)
	}
	t, ok := n.stored(id)
	if !ok {
		return txn.Info{}, machine.Result{Code: machine.NotFound}.ToError("get", id)
	}
	return n.query().Info(&t), nil
}

// stored returns one transaction as this node has applied it.
func (n *Node) stored(id txn.ID) (t machine.Transaction, ok bool) {
	n.fsm.View(func(m *machine.Machine) {
		failpoint.Hit("read")
		t, ok = m.Get(id)
	})
	return t, ok
}

// query returns what reads the applied state for callers.
func (n *Node) query() query.Reader {
	return query.Reader{View: n.fsm.View, Clock: n.clock, Wall: n.conf.wall, Recovery: n.recovery}
}

// List returns transactions in the order of their ids: the newest ones, if there are more than
// the filter's limit.
func (n *Node) List(ctx context.Context, f admin.Filter) ([]txn.Info, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("list", txn.ID{}, err)
	}
	return n.query().List(ctx, f)
}

// Watch yields changes of transactions as they are applied, until ctx ends. The
// participant, label and age parts of the filter are looked up at each event.
func (n *Node) Watch(ctx context.Context, f admin.Filter) iter.Seq2[admin.Event, error] {
	return n.query().Events(f, n.notifier.Watch(ctx))
}

// DeadlineGroups implements [admin.Calls].
func (n adminCalls) DeadlineGroups(ctx context.Context, r admin.DeadlineGroupRange) (admin.DeadlineGroups, error) {
	if err := n.requireReadable(ctx); err != nil {
		return admin.DeadlineGroups{}, txn.Wrap("timeouts", txn.ID{}, err)
	}
	return n.query().DeadlineGroups(r), nil
}

// Sessions implements [admin.Calls].
func (n adminCalls) Sessions(ctx context.Context, f admin.SessionFilter) ([]admin.ClientSession, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("list sessions", txn.ID{}, err)
	}
	return n.query().Sessions(f), nil
}
