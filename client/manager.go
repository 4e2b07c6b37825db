package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
)

// Begin starts a transaction. See [txn.Manager]. An id that is made here gets the latest mark
// that this client knows. If the mark turns out to be older than the retention horizon,
// because this client has begun nothing for long, Begin makes another id: nothing was done
// under the first.
func (c *Client) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	o = inSession(ctx, c, o)
	if !o.ID.IsZero() {
		b, err := c.begin(ctx, o)
		c.learnt.Begun(o, b, err)
		return b, err
	}
	for n := 1; ; n++ {
		o.ID, o.Mark = random.TransactionID(), c.learnt.LatestMark()
		b, err := c.begin(ctx, o)
		c.learnt.Begun(o, b, err)
		switch {
		case !errors.Is(err, txn.ErrForgotten):
			return b, err
		case n == maxBeginIDs:
			return b, newError("begin", o.ID, fmt.Errorf("%w: the coordinator forgets outcomes sooner than a begin takes: raise its retention", txn.ErrUnavailable))
		}
	}
}

// NameTransaction implements [txn.Namer], with what earlier answers have told this client.
func (c *Client) NameTransaction(ctx context.Context, o txn.Options) (txn.Naming, bool) {
	return c.learnt.Name(inSession(ctx, c, o))
}

// maxBeginIDs is how many ids a begin makes: the first may be too old, and so may later ones
// where the retention time is very short.
const maxBeginIDs = 5

func (c *Client) begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	if c.cfg.Unary {
		return c.beginUnary(ctx, o)
	}
	weight := len(o.Name)
	for k, v := range o.Labels {
		weight += len(k) + len(v) + 8
	}
	for _, e := range o.Branches {
		weight += enlistmentWeight(e)
	}
	r, err := c.do(ctx, "begin", o.ID, weight, &txmgrv1.Command{Call: &txmgrv1.Command_Begin{Begin: wire.FromOptions(o)}})
	if err != nil {
		return txn.BeginResult{}, err
	}
	if r.GetBegin() == nil {
		return txn.BeginResult{}, newError("begin", o.ID, errNoReply)
	}
	b, err := wire.ToBeginResult(r.GetBegin())
	if err != nil {
		return txn.BeginResult{}, newError("begin", o.ID, err)
	}
	return b, nil
}

// Enlist records a branch. See [txn.Manager].
func (c *Client) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	b, err := c.enlist(ctx, id, e)
	c.learnt.Enlisted(b)
	return b, err
}

func (c *Client) enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	if c.cfg.Unary {
		return c.enlistUnary(ctx, id, e)
	}
	r, err := c.do(ctx, "enlist", id, enlistmentWeight(e), &txmgrv1.Command{Call: &txmgrv1.Command_Enlist{Enlist: wire.FromEnlistment(e)}})
	if err != nil {
		return txn.Branch{}, err
	}
	if r.GetEnlist() == nil {
		return txn.Branch{}, newError("enlist", id, errNoReply)
	}
	return wire.ToBranch(r.GetEnlist()), nil
}

func enlistmentWeight(e txn.Enlistment) int {
	return len(e.Participant) + len(e.Payload) + len(e.SessionRef) + 16
}

// Commit requests the commit. One that may have arrived and has no answer is
// [txn.ErrInDoubt]. See [txn.Manager].
func (c *Client) Commit(ctx context.Context, id txn.ID, m txn.CommitRequest) (txn.Outcome, error) {
	if c.cfg.Unary {
		return c.commitUnary(ctx, id, m)
	}
	return c.decide(ctx, "commit", id, 12*len(m.Votes), &txmgrv1.Command{Call: &txmgrv1.Command_Commit{Commit: wire.FromCommitRequest(m)}})
}

// Vote reports votes. One that may have arrived and has no answer is [txn.ErrInDoubt]: it may
// be the last vote that was missing. See [txn.Manager].
func (c *Client) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	if c.cfg.Unary {
		return c.voteUnary(ctx, id, b)
	}
	return c.decide(ctx, "vote", id, 12*len(b.Votes)+len(b.Reason), &txmgrv1.Command{Call: &txmgrv1.Command_Vote{Vote: wire.FromVotes(b)}})
}

// Delegate leaves the decision to the transaction's only branch. A delegation that may have
// arrived and has no answer is [txn.ErrInDoubt]: it is not known who decides. See
// [txn.Manager].
func (c *Client) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	if c.cfg.Unary {
		return c.delegateUnary(ctx, id, b)
	}
	return c.decide(ctx, "delegate", id, 0, &txmgrv1.Command{Call: &txmgrv1.Command_Delegate{Delegate: &txmgrv1.DelegateCall{Branch: uint32(b)}}})
}

// Rollback decides to roll back. See [txn.Manager].
func (c *Client) Rollback(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	if c.cfg.Unary {
		return c.rollbackUnary(ctx, id, reason)
	}
	return c.decide(ctx, "rollback", id, len(reason), &txmgrv1.Command{Call: &txmgrv1.Command_Rollback{Rollback: &txmgrv1.RollbackCall{Reason: wire.Text(reason)}}})
}

// Extend sets a new timeout. See [txn.Manager].
func (c *Client) Extend(ctx context.Context, id txn.ID, timeout time.Duration) (txn.Outcome, error) {
	if c.cfg.Unary {
		return c.extendUnary(ctx, id, timeout)
	}
	return c.decide(ctx, "extend", id, 0, &txmgrv1.Command{Call: &txmgrv1.Command_Extend{Extend: &txmgrv1.ExtendCall{Timeout: int64(timeout)}}})
}

func (c *Client) decide(ctx context.Context, op string, id txn.ID, weight int, cmd *txmgrv1.Command) (txn.Outcome, error) {
	r, err := c.do(ctx, op, id, weight, cmd)
	if err != nil {
		return outcomeOf(err), err
	}
	if r.GetOutcome() == nil {
		return txn.Outcome{}, newError(op, id, errNoReply)
	}
	o, err := wire.ToOutcome(r.GetOutcome())
	if err != nil {
		return txn.Outcome{}, newError(op, id, err)
	}
	return o, nil
}

// outcomeOf returns the part of the outcome that the error of a refused call contains.
func outcomeOf(err error) txn.Outcome {
	if e := (*txn.Error)(nil); errors.As(err, &e) {
		return txn.Outcome{State: e.State, Cause: e.Cause, EndedByApplication: errors.Is(err, txn.ErrEndedByApplication)}
	}
	return txn.Outcome{}
}

// ReportCompletion reports branches that the caller has committed or rolled back. See
// [txn.Manager].
func (c *Client) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	if c.cfg.Unary {
		return c.doneUnary(ctx, id, acks)
	}
	cmd := &txmgrv1.Command{Call: &txmgrv1.Command_ReportCompletion{ReportCompletion: wire.FromCompletionReports(acks)}}
	if txn.DelayAllowed(ctx) {
		cmd.Id = id[:]
		c.pipeline.sendDelayed(cmd, 12*len(acks)+commandOverhead)
		return nil
	}
	_, err := c.do(ctx, "done", id, 12*len(acks), cmd)
	return err
}

// Get returns a transaction. See [txn.Manager]; with [txn.AllowStale] the node in use answers
// from its own state.
func (c *Client) Get(ctx context.Context, id txn.ID) (txn.Info, error) {
	if c.cfg.Unary || txn.StaleAllowed(ctx) {
		return c.getUnary(ctx, id)
	}
	r, err := c.do(ctx, "get", id, 0, &txmgrv1.Command{Call: &txmgrv1.Command_Get{Get: &txmgrv1.GetCall{}}})
	if err != nil {
		return txn.Info{}, err
	}
	if r.GetGet() == nil {
		return txn.Info{}, newError("get", id, errNoReply)
	}
	return infoOf("get", id, r.GetGet())
}

// Wait returns when the transaction has reached the goal. It waits as long as ctx;
// [txn.ErrWaitTimeout] if that ends first. See [txn.Manager].
func (c *Client) Wait(ctx context.Context, id txn.ID, goal txn.Goal) (txn.Info, error) {
	request := &txmgrv1.WaitRequest{Id: id.String(), Goal: "finished"}
	if goal == txn.UntilDecided {
		request.Goal = "decided"
	}
	var t *txmgrv1.Transaction
	for {
		started := time.Now()
		err := c.retryUntil(ctx, "wait", id, func() (err error) {
			ctx, connected := traced(ctx)
			e, n := c.currentEndpoint()
			t, err = e.streams.Wait(ctx, request)
			return c.handleTryError(e, n, connected.Load(), err)
		})
		switch {
		case err == nil:
			return infoOf("wait", id, t)
		case ctx.Err() != nil:
			return txn.Info{}, newError("wait", id, fmt.Errorf("%w: %w", txn.ErrWaitTimeout, ctx.Err()))
		case !errors.Is(err, txn.ErrWaitTimeout):
			return txn.Info{}, err
		case time.Since(started) < maxBackoff:
			// The server ends long waits: pause before the next call.
			c.sleep(ctx, maxBackoff)
		}
	}
}

func infoOf(op string, id txn.ID, t *txmgrv1.Transaction) (txn.Info, error) {
	i, err := wire.ToInfo(t)
	if err != nil {
		return txn.Info{}, newError(op, id, err)
	}
	return i, nil
}
