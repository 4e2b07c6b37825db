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
	"github.com/txmgr/txmgr/txn/async"
)

// commandExecutor carries out the commands of one Pipe.
type commandExecutor struct {
	g         *apiHandler
	c         txn.Manager
	async     async.Calls
	blocks    bool // async does
	principal *auth.Principal
}

func newCommandExecutor(g *apiHandler, c txn.Manager, p *auth.Principal) *commandExecutor {
	e := &commandExecutor{g: g, c: c, async: blockingCalls{c}, blocks: true, principal: p}
	if a, ok := c.(asyncCoordinator); ok {
		e.async, e.blocks = a.Async(), false
	}
	return e
}

// Blocks implements [pipeline.Executor].
func (e *commandExecutor) Blocks(t *pipeline.Call) bool {
	c := e.g.methodFor(t.Command).command
	return c != nil && (e.blocks || !c.async)
}

// Execute implements [pipeline.Executor].
func (e *commandExecutor) Execute(t *pipeline.Call) (err error) {
	m := e.g.methodFor(t.Command)
	defer e.recoverPanic(m, &err)
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
	return m.command.run(e, t, id)
}

// recoverPanic, deferred, makes an error of a panic.
func (e *commandExecutor) recoverPanic(m *rpcMethod, err *error) {
	if r := recover(); r != nil {
		*err = e.g.s.observer.panicked(m, r)
	}
}

// finish ends a deferred command. It runs on a goroutine of the coordinator's, which survives a
// panic.
func (e *commandExecutor) finish(t *pipeline.Call, err error, setResult func()) {
	if err == nil {
		func() {
			defer e.recoverPanic(e.g.methodFor(t.Command), &err)
			setResult()
		}()
	}
	t.Finish(err)
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
	kind  reflect.Type // of [txmgrv1.Command.Call]
	async bool         // run does not block, if calls of the coordinator do not
	run   func(e *commandExecutor, t *pipeline.Call, id txn.ID) error
}

// commandOf returns the command whose call has type C. run decodes it, calls the coordinator
// and encodes the reply.
func commandOf[C any](run func(c txn.Manager, t *pipeline.Call, id txn.ID, call C) error) *command {
	return &command{kind: reflect.TypeFor[C](), run: func(e *commandExecutor, t *pipeline.Call, id txn.ID) error {
		return run(e.c, t, id, any(t.Command.GetCall()).(C))
	}}
}

// asyncCommandOf is [commandOf] for a command that is finished later: run makes an asynchronous
// call, unless it returns an error.
func asyncCommandOf[C any](run func(e *commandExecutor, t *pipeline.Call, id txn.ID, call C) error) *command {
	return &command{kind: reflect.TypeFor[C](), async: true, run: func(e *commandExecutor, t *pipeline.Call, id txn.ID) error {
		if err := run(e, t, id, any(t.Command.GetCall()).(C)); err != nil {
			return err
		}
		return pipeline.ErrDeferred
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

func beginCommand(e *commandExecutor, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Begin) error {
	o, err := wire.ToOptions(id, call.Begin)
	if err != nil {
		return err
	}
	e.async.Begin(t.Context, o, func(b txn.BeginResult, err error) {
		e.finish(t, err, func() { t.Reply.Result = &txmgrv1.Reply_Begin{Begin: wire.FromBeginResult(b)} })
	})
	return nil
}

func enlistCommand(c txn.Manager, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Enlist) error {
	b, err := c.Enlist(t.Context, id, wire.ToEnlistment(call.Enlist))
	t.Reply.Result = &txmgrv1.Reply_Enlist{Enlist: wire.FromBranch(b)}
	return err
}

func commitCommand(e *commandExecutor, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_Commit) error {
	r, err := wire.ToCommitRequest(call.Commit)
	if err != nil {
		return err
	}
	e.async.Commit(t.Context, id, r, func(o txn.Outcome, err error) {
		e.finish(t, err, func() { _ = setOutcome(t, o, nil) })
	})
	return nil
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

func reportCompletionCommand(e *commandExecutor, t *pipeline.Call, id txn.ID, call *txmgrv1.Command_ReportCompletion) error {
	acks, err := wire.ToCompletionReports(call.ReportCompletion)
	if err != nil {
		return err
	}
	e.async.ReportCompletion(t.Context, id, acks, func(err error) {
		e.finish(t, err, func() {
			t.Reply.Result = &txmgrv1.Reply_ReportCompletion{ReportCompletion: &txmgrv1.ReportCompletionReply{}}
		})
	})
	return nil
}

func getCommand(c txn.Manager, t *pipeline.Call, id txn.ID, _ *txmgrv1.Command_Get) error {
	i, err := c.Get(t.Context, id)
	t.Reply.Result = &txmgrv1.Reply_Get{Get: wire.FromInfo(i)}
	return err
}
