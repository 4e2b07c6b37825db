package node

import (
	"context"

	"github.com/txmgr/txmgr/node/commitwait"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/async"
	"github.com/txmgr/txmgr/txn/machine"
)

// asyncCalls are the calls of a node that need no goroutine. It implements [async.Calls].
type asyncCalls struct{ n *Node }

// Async returns the calls for callers that spend no goroutine on each of them.
func (n *Node) Async() async.Calls { return asyncCalls{n} }

// Begin implements [async.Calls].
func (a asyncCalls) Begin(ctx context.Context, o txn.Options, answer func(txn.BeginResult, error)) {
	c, term, err := a.n.beginCommand(&o)
	if err != nil {
		answer(txn.BeginResult{}, txn.Wrap("begin", o.ID, err))
		return
	}
	reserve := func() (func(), error) { return a.n.admission.quotas.ReserveBegin(o) }
	a.n.proposeTxAsync(ctx, term, "begin", o.ID, c, reserve, func(res machine.Result, err error) { answer(a.n.beginResult(o, res, err)) })
}

// ReportCompletion implements [async.Calls].
func (a asyncCalls) ReportCompletion(ctx context.Context, id txn.ID, reports []txn.CompletionReport, answer func(error)) {
	c := machine.ReportCompletion{ID: id, Reports: reports}
	a.n.proposeTxAsync(ctx, 0, "done", id, c, nil, func(_ machine.Result, err error) { answer(err) })
}

// Commit implements [async.Calls]. A commit whose votes are missing waits as a request in the
// purgatory. Only one that reports branches ended by application SQL, which is several commands one
// after the other, has a goroutine until these are applied.
func (a asyncCalls) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest, answer func(txn.Outcome, error)) {
	if told, _ := machine.SplitEndedByApplication(id, c.Votes, ""); len(told) > 0 {
		go func() {
			votes, res, err := a.n.recordEndedByApplication(ctx, "commit", id, c.Votes, "")
			if err != nil {
				answer(outcomeOf(res), err)
				return
			}
			a.Commit(ctx, id, txn.CommitRequest{Votes: votes, ClientCompletes: c.ClientCompletes}, answer)
		}()
		return
	}
	command := machine.Commit{ID: id, Votes: c.Votes, ClientCompletes: c.ClientCompletes}
	a.n.proposeTxAsync(ctx, 0, "commit", id, command, nil, func(res machine.Result, err error) {
		o, missing, err := a.n.commitResult(res, err)
		if !missing {
			answer(o, err)
			return
		}
		commitwait.Park(ctx, commitNode{a.n}, a.n.notifier, id, answer)
	})
}
