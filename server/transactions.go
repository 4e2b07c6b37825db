package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/limits"
	"github.com/txmgr/txmgr/server/pipeline"
	"github.com/txmgr/txmgr/txn"
)

// Transactions are the calls of the TransactionService.
type Transactions interface {
	txn.Manager
	// List returns the transactions that match a filter.
	List(ctx context.Context, f txn.Filter) ([]txn.Info, error)
	// Watch yields changes of state from now on, until ctx ends or an error occurs, which is
	// the last element.
	Watch(ctx context.Context, f txn.Filter) iter.Seq2[txn.Event, error]
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
		o.Branches = append(o.Branches, txn.Enlistment{Participant: e.GetParticipant(), Payload: e.GetPayload(), SessionRef: e.GetSessionRef()})
	}
	b, err := t.c.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	res := &txmgrv1.BeginResponse{Id: b.ID.String(), Timeout: b.Timeout.String(), SurvivalIndex: b.SurvivalIndex, ExpiryTick: b.ExpiryTick, Mark: b.Mark.String()}
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
	b, err := t.c.Enlist(ctx, id, txn.Enlistment{Participant: r.GetParticipant(), Payload: r.GetPayload(), SessionRef: r.GetSessionRef()})
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

func (t *transactionService) Get(ctx context.Context, r *txmgrv1.GetRequest) (*txmgrv1.Transaction, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	i, err := t.c.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return wire.FromInfo(i), nil
}

func (t *transactionService) List(ctx context.Context, r *txmgrv1.Filter) (*txmgrv1.ListResponse, error) {
	f, err := wire.ToFilter(r)
	if err != nil {
		return nil, err
	}
	reserved, err := t.lists.Reserve(f.Limit)
	if err != nil {
		return nil, err
	}
	x := callFrom(ctx)
	x.listReserved = reserved // until the list is sent
	infos, err := t.c.List(ctx, f)
	if err != nil {
		return nil, err
	}
	t.lists.Release(reserved - int64(len(infos)))
	x.listReserved = int64(len(infos))
	res := &txmgrv1.ListResponse{Transactions: make([]*txmgrv1.Transaction, len(infos))}
	for n, i := range infos {
		res.Transactions[n] = wire.FromInfo(i)
	}
	return res, nil
}

// Goals of Wait in the API.
const (
	goalFinished = "finished"
	goalDecided  = "decided"
)

func (t *transactionService) Wait(ctx context.Context, r *txmgrv1.WaitRequest) (*txmgrv1.Transaction, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	goal := txn.UntilFinished
	switch r.GetGoal() {
	case "", goalFinished:
	case goalDecided:
		goal = txn.UntilDecided
	default:
		return nil, fmt.Errorf("%w: unknown goal %q: want %s or %s", txn.ErrInvalid, r.GetGoal(), goalFinished, goalDecided)
	}
	limit, err := wire.ParseDuration("timeout", r.GetTimeout())
	if err != nil {
		return nil, err
	}
	if limit == 0 || limit > t.maxWait {
		limit = t.maxWait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	i, err := t.c.Wait(ctx, id, goal)
	if err != nil {
		if cause := context.Cause(callFrom(ctx).lifetime); cause != nil && errors.Is(err, txn.ErrWaitTimeout) {
			err = cause // so that the client continues to wait at another node
		}
		return nil, err
	}
	return wire.FromInfo(i), nil
}

func (t *transactionService) Pipeline(ctx context.Context, stream *pipeline.Stream) error {
	x := callFrom(ctx)
	return t.pipelines.Serve(ctx, x.lifetime, stream, x.rc, &commandExecutor{t.methods, t.c, &x.principal})
}

// eventWriteTimeout is how long a client may take to receive one event before its watch is
// ended.
const eventWriteTimeout = 30 * time.Second

func (t *transactionService) Watch(ctx context.Context, r *txmgrv1.Filter, stream *connect.ServerStream[txmgrv1.Event]) error {
	f, err := wire.ToFilter(r)
	if err != nil {
		return err
	}
	x := callFrom(ctx)
	ctx, cancel := withLifetime(ctx)
	defer cancel()
	// The headers tell the client that it is watching, before there is an event. Only sending
	// has a deadline: events may be days apart.
	send := func(e *txmgrv1.Event) error {
		_ = x.rc.SetWriteDeadline(time.Now().Add(eventWriteTimeout))
		defer func() { _ = x.rc.SetWriteDeadline(time.Time{}) }()
		return stream.Send(e)
	}
	if err := send(nil); err != nil {
		return nil
	}
	for e, err := range t.c.Watch(ctx, f) {
		if err != nil {
			return endOfWatch(ctx, err)
		}
		if err := send(wire.FromEvent(e)); err != nil {
			return nil // the client is gone
		}
	}
	return endOfWatch(ctx, nil)
}

// endOfWatch is the error of a watch: nil if the client has left, and the cause if the server
// ends it.
func endOfWatch(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, txn.ErrUnavailable), errors.Is(cause, txn.ErrDenied):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: the caller's time for the watch is over", txn.ErrWaitTimeout)
	case cause != nil:
		return nil
	default:
		return err
	}
}
