package server

import (
	"fmt"
	"reflect"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/server/pipeline"
	"github.com/txmgr/txmgr/txn"
)

// commandExecutor carries out the commands of one Pipe.
type commandExecutor struct {
	g         *apiHandler
	c         txn.Manager
	principal *auth.Principal
}

// Execute implements [pipeline.Executor].
func (e *commandExecutor) Execute(t *pipeline.Call) (err error) {
	m := e.g.methodFor(t.Command)
	defer func() {
		if r := recover(); r != nil {
			err = e.g.s.observer.panicked(m, r)
		}
	}()
	if err := e.principal.Allow(time.Now()); err != nil {
		return err
	}
	id, err := wire.IDFromBytes(t.Command.GetId())
	if err != nil {
		return err
	}
	if m.command == nil {
		return fmt.Errorf("%w: the command is none that this server knows", txn.ErrInvalid)
	}
	return m.command.run(e.c, t, id)
}

// Ended implements [pipeline.Executor].
func (e *commandExecutor) Ended(t *pipeline.Call, err error) (f *txmgrv1.Failure) {
	o := observation{method: e.g.methodFor(t.Command), code: txn.CodeOK, took: time.Since(t.Started)}
	if err != nil {
		o.id, _ = wire.IDFromBytes(t.Command.GetId())
		f = wire.FromError(err, o.method.op, o.id)
		o.code, o.err, o.callerGone = txn.Code(f.GetCode()), err, callerGone(t.Context)
	}
	e.g.s.observer.observe(o)
	return f
}

// command is how a method is called through a Pipe.
type command struct {
	kind reflect.Type // of [txmgrv1.Command.Call]
	run  func(c txn.Manager, t *pipeline.Call, id txn.ID) error
}

// commandOf returns the command whose call has type C. run decodes it, calls the coordinator
// and encodes the reply.
func commandOf[C any](run func(c txn.Manager, t *pipeline.Call, id txn.ID, call C) error) *command {
	return &command{reflect.TypeFor[C](), func(c txn.Manager, t *pipeline.Call, id txn.ID) error {
		return run(c, t, id, any(t.Command.GetCall()).(C))
	}}
}

// methodFor returns the method whose unary form corresponds to the command; that of the Pipe
// itself if there is none.
func (g *apiHandler) methodFor(c *txmgrv1.Command) *rpcMethod {
	kind := reflect.TypeOf(c.GetCall())
	for _, m := range g.commands { // a map look-up would take longer: they are few, the frequent ones first
		if m.command.kind == kind {
			return m
		}
	}
	return g.methods[txmgrv1connect.TransactionServicePipelineProcedure]
}

func beginCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Begin) error {
	o, err := wire.ToOptions(id, call.Begin)
	if err != nil {
		return err
	}
	b, err := c.Begin(t.Context, o)
	t.Reply.Result = &txmgrv1.Reply_Begin{Begin: wire.FromBeginResult(b)}
	return err
}

func enlistCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Enlist) error {
	b, err := c.Enlist(t.Context, id, wire.ToEnlistment(call.Enlist))
	t.Reply.Result = &txmgrv1.Reply_Enlist{Enlist: wire.FromBranch(b)}
	return err
}

// commitCommand does not occupy its goroutine while votes are missing, if the coordinator is
// an [asyncCommitter].
func commitCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Commit) error {
	r, err := wire.ToCommitRequest(call.Commit)
	if err != nil {
		return err
	}
	async, ok := c.(asyncCommitter)
	if !ok {
		o, err := c.Commit(t.Context, id, r)
		return setOutcome(t, o, err)
	}
	async.CommitAsync(t.Context, id, r, func(o txn.Outcome, err error) { t.Finish(setOutcome(t, o, err)) })
	return pipeline.ErrDeferred
}

func setOutcome(t *pipeline.Call, o txn.Outcome, err error) error {
	t.Reply.Result = &txmgrv1.Reply_Outcome{Outcome: wire.FromOutcome(o)}
	return err
}

func voteCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Vote) error {
	votes, err := wire.ToVotes(call.Vote)
	if err != nil {
		return err
	}
	o, err := c.Vote(t.Context, id, votes)
	return setOutcome(t, o, err)
}

func delegateCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Delegate) error {
	o, err := c.Delegate(t.Context, id, txn.BranchID(call.Delegate.GetBranch()))
	return setOutcome(t, o, err)
}

func rollbackCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Rollback) error {
	o, err := c.Rollback(t.Context, id, call.Rollback.GetReason())
	return setOutcome(t, o, err)
}

func extendCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Extend) error {
	o, err := c.Extend(t.Context, id, time.Duration(call.Extend.GetTimeout()))
	return setOutcome(t, o, err)
}

func reportCompletionCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_ReportCompletion) error {
	acks, err := wire.ToCompletionReports(call.ReportCompletion)
	if err != nil {
		return err
	}
	t.Reply.Result = &txmgrv1.Reply_ReportCompletion{ReportCompletion: &txmgrv1.ReportCompletionReply{}}
	return c.ReportCompletion(t.Context, id, acks...)
}

func getCommand(c txn.Manager, t *pipeline.Call, id txn.ID, _ *txmgrv1.Command_Get) error {
	i, err := c.Get(t.Context, id)
	t.Reply.Result = &txmgrv1.Reply_Get{Get: wire.FromInfo(i)}
	return err
}
