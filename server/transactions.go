package server

import (
	"context"
	"fmt"
	"iter"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/limits"
	"github.com/txmgr/txmgr/server/pipeline"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Transactions are the calls of the TransactionService.
type Transactions interface {
	txn.Manager
	// List returns the transactions that match a filter.
	List(ctx context.Context, f admin.Filter) ([]txn.Info, error)
	// Watch yields changes of state from now on, until ctx ends or an error occurs, which is
	// the last element.
	Watch(ctx context.Context, f admin.Filter) iter.Seq2[admin.Event, error]
}

// transactionService is the TransactionService.
type transactionService struct {
	c         Transactions
	lists     *limits.Lists
	maxWait   time.Duration // of one Wait
	pipelines *pipeline.Runner
	methods   *apiHandler // of the commands of a Pipe
}

func (t *transactionService) Begin(ctx context.Context, r *txmgrv1.BeginRequest) (*txmgrv1.BeginResponse, error) {
	o := txn.Options{Name: r.GetName(), Labels: r.GetLabels()}
	var err error
	if r.GetId() != "" {
		if o.ID, err = txn.ParseID(r.GetId()); err != nil {
			return nil, err
		}
	}
	if o.Timeout, err = wire.ParseDuration("timeout", r.GetTimeout()); err != nil {
		return nil, err
	}
	if o.Timeout == 0 && r.GetTimeout() != "" {
		return nil, fmt.Errorf("%w: timeout %q: leave it out for the default, or give more than zero", txn.ErrInvalid, r.GetTimeout())
	}
	if o.Session, err = wire.ToSessionID(r.GetSession()); err != nil {
		return nil, err
	}
	if o.Mark, err = txn.ParseMark(r.GetMark()); err != nil {
		return nil, err
	}
	for _, e := range r.GetBranches() {
		o.Branches = append(o.Branches, txn.Enlistment{Participant: e.GetParticipant(), Payload: e.GetPayload(), SessionRef: e.GetSessionRef(), Decides: e.GetDecides(), Revokes: e.GetRevokes()})
	}
	b, err := t.c.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	res := &txmgrv1.BeginResponse{Id: b.ID.String(), Timeout: b.Timeout.String(), SurvivalIndex: b.SurvivalIndex, ExpiryTick: b.ExpiryTick, Mark: b.Mark.String(), Appoints: b.Appoints}
	for _, one := range b.Branches {
		res.Branches = append(res.Branches, branch(one))
	}
	return res, nil
}

func branch(b txn.Branch) *txmgrv1.Branch {
	return &txmgrv1.Branch{Id: b.ID.String(), Participant: b.Participant, Xid: b.XID}
}

func (t *transactionService) Enlist(ctx context.Context, r *txmgrv1.EnlistRequest) (*txmgrv1.Branch, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	b, err := t.c.Enlist(ctx, id, txn.Enlistment{Participant: r.GetParticipant(), Payload: r.GetPayload(), SessionRef: r.GetSessionRef(), Decides: r.GetDecides(), Revokes: r.GetRevokes()})
	if err != nil {
		return nil, err
	}
	return branch(b), nil
}

func (t *transactionService) Commit(ctx context.Context, r *txmgrv1.CommitRequest) (*txmgrv1.Outcome, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	votes, err := parseVotes(r.GetVotes())
	if err != nil {
		return nil, err
	}
	return outcome(t.c.Commit(ctx, id, txn.CommitRequest{ClientCompletes: r.GetClientCompletes(), Votes: votes}))
}

func parseVotes(ms []*txmgrv1.Vote) (vs []txn.BranchVote, err error) {
	for _, m := range ms {
		var v txn.BranchVote
		if v.Branch, err = txn.ParseBranchID(m.GetBranch()); err != nil {
			return nil, err
		}
		if v.Vote, err = txn.ParseVote(m.GetVote()); err != nil {
			return nil, err
		}
		if v.Vote == txn.VoteDelegated {
			return nil, fmt.Errorf("%w: %v is no vote that can be given: call Delegate", txn.ErrInvalid, v.Vote)
		}
		vs = append(vs, v)
	}
	return vs, nil
}

func (t *transactionService) Vote(ctx context.Context, r *txmgrv1.VoteRequest) (*txmgrv1.Outcome, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	votes, err := parseVotes(r.GetVotes())
	if err != nil {
		return nil, err
	}
	return outcome(t.c.Vote(ctx, id, txn.Votes{ClientCompletes: r.GetClientCompletes(), Reason: r.GetReason(), Votes: votes}))
}

func (t *transactionService) Delegate(ctx context.Context, r *txmgrv1.DelegateRequest) (*txmgrv1.Outcome, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	b, err := txn.ParseBranchID(r.GetBranch())
	if err != nil {
		return nil, err
	}
	return outcome(t.c.Delegate(ctx, id, b))
}

func outcome(o txn.Outcome, err error) (*txmgrv1.Outcome, error) {
	if err != nil {
		return nil, err
	}
	m := &txmgrv1.Outcome{State: o.State.String(), Cause: o.Cause.String(), Heuristic: o.Heuristic.String()}
	if o.EndedByApplication {
		m.EndedByApplication = &o.EndedByApplication
	}
	return m, nil
}

func (t *transactionService) Rollback(ctx context.Context, r *txmgrv1.RollbackRequest) (*txmgrv1.Outcome, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	return outcome(t.c.Rollback(ctx, id, r.GetReason()))
}

func (t *transactionService) Extend(ctx context.Context, r *txmgrv1.ExtendRequest) (*txmgrv1.Outcome, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	d, err := wire.ParseDuration("timeout", r.GetTimeout())
	if err == nil && d == 0 {
		err = fmt.Errorf("%w: timeout is missing: say how long from now, such as 30s", txn.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	return outcome(t.c.Extend(ctx, id, d))
}

func (t *transactionService) ReportCompletion(ctx context.Context, r *txmgrv1.ReportCompletionRequest) (*txmgrv1.ReportCompletionResponse, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	acks := make([]txn.CompletionReport, len(r.GetReports()))
	for i, a := range r.GetReports() {
		if acks[i].Branch, err = txn.ParseBranchID(a.GetBranch()); err != nil {
			return nil, err
		}
		if err = acks[i].State.UnmarshalText([]byte(a.GetState())); err != nil {
			return nil, err
		}
	}
	if err := t.c.ReportCompletion(ctx, id, acks...); err != nil {
		return nil, err
	}
	return &txmgrv1.ReportCompletionResponse{}, nil
}

func (t *transactionService) Pipeline(ctx context.Context, stream *pipeline.Stream) error {
	x := callFrom(ctx)
	return t.pipelines.Serve(ctx, x.lifetime, stream, x.rc, newCommandExecutor(t.methods, t.c, &x.principal))
}
