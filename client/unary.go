package client

import (
	"context"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// This file makes the calls of manager.go as requests of their own, for [Config.Unary].

func (c *Client) beginUnary(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	r := &txmgrv1.BeginRequest{Id: o.ID.String(), Name: wire.Text(o.Name), Labels: wire.TextMap(o.Labels), Session: wire.FormatSession(o.Session), Mark: o.Mark.String()}
	if o.Timeout != 0 {
		r.Timeout = o.Timeout.String()
	}
	for _, e := range o.Branches {
		r.Branches = append(r.Branches, &txmgrv1.Enlistment{Participant: wire.Text(e.Participant), Payload: e.Payload, SessionRef: wire.Text(e.SessionRef), Decides: e.Decides, Revokes: e.Revokes})
	}
	var res *txmgrv1.BeginResponse
	err := c.unaryCall(ctx, "begin", o.ID, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.transactions.Begin(ctx, r)
		return err
	})
	if err != nil {
		return txn.BeginResult{}, err
	}
	return beginResultOf(o.ID, res)
}

func beginResultOf(id txn.ID, r *txmgrv1.BeginResponse) (txn.BeginResult, error) {
	b := txn.BeginResult{SurvivalIndex: r.GetSurvivalIndex(), ExpiryTick: r.GetExpiryTick(), Appoints: r.GetAppoints()}
	var err error
	if b.ID, err = txn.ParseID(r.GetId()); err != nil {
		return b, newError("begin", id, err)
	}
	if b.Timeout, err = wire.ParseDuration("timeout", r.GetTimeout()); err != nil {
		return b, newError("begin", id, err)
	}
	if b.Mark, err = txn.ParseMark(r.GetMark()); err != nil {
		return b, newError("begin", id, err)
	}
	for _, m := range r.GetBranches() {
		one, err := branchOf(m)
		if err != nil {
			return b, newError("begin", id, err)
		}
		b.Branches = append(b.Branches, one)
	}
	return b, nil
}

func branchOf(m *txmgrv1.Branch) (txn.Branch, error) {
	id, err := txn.ParseBranchID(m.GetId())
	return txn.Branch{ID: id, Participant: m.GetParticipant(), XID: m.GetXid()}, err
}

func (c *Client) enlistUnary(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	r := &txmgrv1.EnlistRequest{Id: id.String(), Participant: wire.Text(e.Participant), Payload: e.Payload, SessionRef: wire.Text(e.SessionRef), Decides: e.Decides, Revokes: e.Revokes}
	var res *txmgrv1.Branch
	err := c.unaryCall(ctx, "enlist", id, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.transactions.Enlist(ctx, r)
		return err
	})
	if err != nil {
		return txn.Branch{}, err
	}
	b, err := branchOf(res)
	if err != nil {
		return b, newError("enlist", id, err)
	}
	return b, nil
}

func (c *Client) commitUnary(ctx context.Context, id txn.ID, m txn.CommitRequest) (txn.Outcome, error) {
	r := &txmgrv1.CommitRequest{Id: id.String(), ClientCompletes: m.ClientCompletes, Votes: votesOf(m.Votes)}
	return c.decideUnary(ctx, "commit", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.transactions.Commit(ctx, r)
	})
}

func votesOf(votes []txn.BranchVote) (ms []*txmgrv1.Vote) {
	for _, v := range votes {
		ms = append(ms, &txmgrv1.Vote{Branch: v.Branch.String(), Vote: v.Vote.String()})
	}
	return ms
}

func (c *Client) voteUnary(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	r := &txmgrv1.VoteRequest{Id: id.String(), ClientCompletes: b.ClientCompletes, Votes: votesOf(b.Votes), Reason: wire.Text(b.Reason)}
	return c.decideUnary(ctx, "vote", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.transactions.Vote(ctx, r)
	})
}

func (c *Client) delegateUnary(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	r := &txmgrv1.DelegateRequest{Id: id.String(), Branch: b.String()}
	return c.decideUnary(ctx, "delegate", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.transactions.Delegate(ctx, r)
	})
}

func (c *Client) rollbackUnary(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	r := &txmgrv1.RollbackRequest{Id: id.String(), Reason: wire.Text(reason)}
	return c.decideUnary(ctx, "rollback", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.transactions.Rollback(ctx, r)
	})
}

func (c *Client) extendUnary(ctx context.Context, id txn.ID, timeout time.Duration) (txn.Outcome, error) {
	r := &txmgrv1.ExtendRequest{Id: id.String(), Timeout: timeout.String()}
	return c.decideUnary(ctx, "extend", id, func(ctx context.Context, e *endpoint) (*txmgrv1.Outcome, error) {
		return e.transactions.Extend(ctx, r)
	})
}

func (c *Client) decideUnary(
	ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) (*txmgrv1.Outcome, error),
) (txn.Outcome, error) {
	return c.outcomeCall(ctx, c.unaryCall, op, id, call)
}

// callFunc is how a call is made: [Client.unaryCall] or [Client.fanoutCall].
type callFunc func(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error

func (c *Client) outcomeCall(
	ctx context.Context, by callFunc, op string, id txn.ID, call func(context.Context, *endpoint) (*txmgrv1.Outcome, error),
) (txn.Outcome, error) {
	var res *txmgrv1.Outcome
	err := by(ctx, op, id, func(ctx context.Context, e *endpoint) (err error) {
		res, err = call(ctx, e)
		return err
	})
	if err != nil {
		return outcomeOf(err), err
	}
	o := txn.Outcome{EndedByApplication: res.GetEndedByApplication()}
	for _, f := range []struct {
		into interface{ UnmarshalText([]byte) error }
		name string
	}{{&o.State, res.GetState()}, {&o.Cause, res.GetCause()}, {&o.Heuristic, res.GetHeuristic()}} {
		if err := f.into.UnmarshalText([]byte(f.name)); err != nil {
			return o, newError(op, id, err)
		}
	}
	return o, nil
}

func (c *Client) doneUnary(ctx context.Context, id txn.ID, acks []txn.CompletionReport) error {
	r := &txmgrv1.ReportCompletionRequest{Id: id.String()}
	for _, a := range acks {
		r.Reports = append(r.Reports, &txmgrv1.CompletionReport{Branch: a.Branch.String(), State: a.State.String()})
	}
	return c.unaryCall(ctx, "done", id, func(ctx context.Context, e *endpoint) error {
		_, err := e.transactions.ReportCompletion(ctx, r)
		return err
	})
}

func (c *Client) getUnary(ctx context.Context, id txn.ID) (txn.Info, error) {
	var res *txmgrv1.Transaction
	err := c.unaryCall(ctx, "get", id, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.transactions.Get(ctx, &txmgrv1.GetRequest{Id: id.String()})
		return err
	})
	if err != nil {
		return txn.Info{}, err
	}
	return infoOf("get", id, res)
}
