package server

import (
	"errors"
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// pipelineCall is one command and its reply.
type pipelineCall struct {
	queuedCall
	pipeline *pipeline
	method   *rpcMethod
	reply    txmgrv1.Reply
}

// errDeferred: the command waits without a goroutine, and its callback finishes it.
var errDeferred = errors.New("parked")

// execute carries out the command; the caller finishes it, unless the error is errDeferred.
func (t *pipelineCall) execute() (err error) {
	p := t.pipeline
	defer func() {
		if r := recover(); r != nil {
			err = p.s.panicked(t.method, r)
		}
	}()
	if n := p.s.commands.Add(1); n > int64(p.s.cfg.MaxCommands) {
		err := fmt.Errorf("%w: %d commands are running, which is the limit", txn.ErrUnavailable, p.s.cfg.MaxCommands)
		return &wire.RetryAfterError{After: retryAfter, Err: err}
	}
	if err := p.principal.allow(time.Now()); err != nil {
		return err
	}
	id, err := wire.IDFromBytes(t.command.GetId())
	if err != nil {
		return err
	}
	return t.dispatch(id)
}

// commit does not occupy its goroutine while votes are missing, if the coordinator is an
// [asyncCommitter].
func (t *pipelineCall) commit(id txn.ID, call *txmgrv1.CommitCall) error {
	c, err := wire.ToCommitRequest(call)
	if err != nil {
		return err
	}
	if t.pipeline.s.asyncCommitter == nil {
		return t.setOutcome(t.pipeline.s.c.Commit(t.ctx, id, c))
	}
	t.pipeline.s.asyncCommitter.CommitAsync(t.ctx, id, c, func(o txn.Outcome, err error) { t.finish(t.setOutcome(o, err)) })
	return errDeferred
}

func (t *pipelineCall) setOutcome(o txn.Outcome, err error) error {
	t.reply.Result = &txmgrv1.Reply_Outcome{Outcome: wire.FromOutcome(o)}
	return err
}

// finish queues the reply for sending. err is nil if the call succeeded.
func (t *pipelineCall) finish(err error) {
	p := t.pipeline
	p.s.commands.Add(-1)
	o := observation{method: t.method, code: txn.CodeOK, took: time.Since(t.started)}
	if err != nil {
		o.id, _ = wire.IDFromBytes(t.command.GetId())
		f := wire.FromError(err, t.method.op, o.id)
		t.reply.Result = &txmgrv1.Reply_Failure{Failure: f}
		o.code, o.err, o.callerGone = txn.Code(f.GetCode()), err, callerGone(t.ctx)
	}
	p.s.observe(o)

	p.mu.Lock()
	p.replies = append(p.replies, &t.reply)
	if len(p.replies) == 1 {
		p.changed.Broadcast()
	}
	p.mu.Unlock()
}

// methodFor returns the method whose unary form corresponds to the command.
func (s *Server) methodFor(c *txmgrv1.Command) *rpcMethod {
	switch c.GetCall().(type) {
	case *txmgrv1.Command_Begin:
		return s.pipelineMethods.begin
	case *txmgrv1.Command_Enlist:
		return s.pipelineMethods.enlist
	case *txmgrv1.Command_Commit:
		return s.pipelineMethods.commit
	case *txmgrv1.Command_Rollback:
		return s.pipelineMethods.rollback
	case *txmgrv1.Command_Vote:
		return s.pipelineMethods.vote
	case *txmgrv1.Command_Delegate:
		return s.pipelineMethods.delegate
	case *txmgrv1.Command_Extend:
		return s.pipelineMethods.extend
	case *txmgrv1.Command_ReportCompletion:
		return s.pipelineMethods.done
	case *txmgrv1.Command_Get:
		return s.pipelineMethods.get
	default:
		return s.pipelineMethods.unknown
	}
}

// dispatch decodes the command, calls the coordinator and encodes the reply.
func (t *pipelineCall) dispatch(id txn.ID) error {
	ctx, c, reply := t.ctx, t.pipeline.s.c, &t.reply
	switch call := t.command.GetCall().(type) {
	case *txmgrv1.Command_Begin:
		o, err := wire.ToOptions(id, call.Begin)
		if err != nil {
			return err
		}
		b, err := c.Begin(ctx, o)
		reply.Result = &txmgrv1.Reply_Begin{Begin: wire.FromBeginResult(b)}
		return err
	case *txmgrv1.Command_Enlist:
		b, err := c.Enlist(ctx, id, wire.ToEnlistment(call.Enlist))
		reply.Result = &txmgrv1.Reply_Enlist{Enlist: wire.FromBranch(b)}
		return err
	case *txmgrv1.Command_Commit:
		return t.commit(id, call.Commit)
	case *txmgrv1.Command_Vote:
		votes, err := wire.ToVotes(call.Vote)
		if err != nil {
			return err
		}
		return t.setOutcome(c.Vote(ctx, id, votes))
	case *txmgrv1.Command_Delegate:
		return t.setOutcome(c.Delegate(ctx, id, txn.BranchID(call.Delegate.GetBranch())))
	case *txmgrv1.Command_Rollback:
		return t.setOutcome(c.Rollback(ctx, id, call.Rollback.GetReason()))
	case *txmgrv1.Command_Extend:
		return t.setOutcome(c.Extend(ctx, id, time.Duration(call.Extend.GetTimeout())))
	case *txmgrv1.Command_ReportCompletion:
		acks, err := wire.ToCompletionReports(call.ReportCompletion)
		if err != nil {
			return err
		}
		reply.Result = &txmgrv1.Reply_ReportCompletion{ReportCompletion: &txmgrv1.ReportCompletionReply{}}
		return c.ReportCompletion(ctx, id, acks...)
	case *txmgrv1.Command_Get:
		i, err := c.Get(ctx, id)
		reply.Result = &txmgrv1.Reply_Get{Get: wire.FromInfo(i)}
		return err
	default:
		return fmt.Errorf("%w: the command is none that this server knows", txn.ErrInvalid)
	}
}
