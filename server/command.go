package server

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/limits"
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
		return &wire.RetryAfterError{After: limits.RetryAfter, Err: err}
	}
	if err := p.principal.Allow(time.Now()); err != nil {
		return err
	}
	id, err := wire.IDFromBytes(t.command.GetId())
	if err != nil {
		return err
	}
	if t.method.command == nil {
		return fmt.Errorf("%w: the command is none that this server knows", txn.ErrInvalid)
	}
	return t.method.command.run(t, id)
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

// command is how a method is called through a Pipe.
type command struct {
	kind reflect.Type // of [txmgrv1.Command.Call]
	run  func(t *pipelineCall, id txn.ID) error
}

// commandOf returns the command whose call has type C. run decodes it, calls the coordinator
// and encodes the reply.
func commandOf[C any](run func(t *pipelineCall, id txn.ID, c C) error) *command {
	return &command{reflect.TypeFor[C](), func(t *pipelineCall, id txn.ID) error { return run(t, id, any(t.command.GetCall()).(C)) }}
}

// methodFor returns the method whose unary form corresponds to the command; that of the Pipe
// itself if there is none.
func (g *apiHandler) methodFor(c *txmgrv1.Command) *rpcMethod {
	if m := g.byCommand[reflect.TypeOf(c.GetCall())]; m != nil {
		return m
	}
	return g.methods[txmgrv1connect.TransactionServicePipelineProcedure]
}

func beginCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_Begin) error {
	o, err := wire.ToOptions(id, call.Begin)
	if err != nil {
		return err
	}
	b, err := t.pipeline.s.c.Begin(t.ctx, o)
	t.reply.Result = &txmgrv1.Reply_Begin{Begin: wire.FromBeginResult(b)}
	return err
}

func enlistCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_Enlist) error {
	b, err := t.pipeline.s.c.Enlist(t.ctx, id, wire.ToEnlistment(call.Enlist))
	t.reply.Result = &txmgrv1.Reply_Enlist{Enlist: wire.FromBranch(b)}
	return err
}

// commitCommand does not occupy its goroutine while votes are missing, if the coordinator is
// an [asyncCommitter].
func commitCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_Commit) error {
	c, err := wire.ToCommitRequest(call.Commit)
	if err != nil {
		return err
	}
	if t.pipeline.s.asyncCommitter == nil {
		return t.setOutcome(t.pipeline.s.c.Commit(t.ctx, id, c))
	}
	t.pipeline.s.asyncCommitter.CommitAsync(t.ctx, id, c, func(o txn.Outcome, err error) { t.finish(t.setOutcome(o, err)) })
	return errDeferred
}

func voteCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_Vote) error {
	votes, err := wire.ToVotes(call.Vote)
	if err != nil {
		return err
	}
	return t.setOutcome(t.pipeline.s.c.Vote(t.ctx, id, votes))
}

func delegateCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_Delegate) error {
	return t.setOutcome(t.pipeline.s.c.Delegate(t.ctx, id, txn.BranchID(call.Delegate.GetBranch())))
}

func rollbackCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_Rollback) error {
	return t.setOutcome(t.pipeline.s.c.Rollback(t.ctx, id, call.Rollback.GetReason()))
}

func extendCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_Extend) error {
	return t.setOutcome(t.pipeline.s.c.Extend(t.ctx, id, time.Duration(call.Extend.GetTimeout())))
}

func reportCompletionCommand(t *pipelineCall, id txn.ID, call *txmgrv1.Command_ReportCompletion) error {
	acks, err := wire.ToCompletionReports(call.ReportCompletion)
	if err != nil {
		return err
	}
	t.reply.Result = &txmgrv1.Reply_ReportCompletion{ReportCompletion: &txmgrv1.ReportCompletionReply{}}
	return t.pipeline.s.c.ReportCompletion(t.ctx, id, acks...)
}

func getCommand(t *pipelineCall, id txn.ID, _ *txmgrv1.Command_Get) error {
	i, err := t.pipeline.s.c.Get(t.ctx, id)
	t.reply.Result = &txmgrv1.Reply_Get{Get: wire.FromInfo(i)}
	return err
}
