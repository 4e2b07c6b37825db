package server

import (
	"errors"
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// task is one command and its reply.
type task struct {
	job
	pipe      *pipe
	procedure *procedure
	reply     txmgrv1.Reply
}

// errParked says that a command waits without a goroutine, and will end by itself.
var errParked = errors.New("parked")

// carryOut is the whole of one command but for its end.
func (t *task) carryOut() (err error) {
	p := t.pipe
	defer func() {
		if r := recover(); r != nil {
			err = p.s.panicked(t.procedure, r)
		}
	}()
	if n := p.s.commands.Add(1); n > int64(p.s.cfg.MaxCommands) {
		err := fmt.Errorf("%w: %d commands are running, which is the limit", txn.ErrUnavailable, p.s.cfg.MaxCommands)
		return &wire.RetryAfterError{After: retryAfter, Err: err}
	}
	if err := p.bearer.take(time.Now()); err != nil {
		return err
	}
	id, err := wire.PipeID(t.command.GetId())
	if err != nil {
		return err
	}
	return t.call(id)
}

// commit does not hold its goroutine while votes are missing, if the coordinator can do
// without.
func (t *task) commit(id txn.ID, call *txmgrv1.CommitCall) error {
	c, err := wire.ToCommitment(call)
	if err != nil {
		return err
	}
	if t.pipe.s.parking == nil {
		return t.answer(t.pipe.s.c.Commit(t.ctx, id, c))
	}
	t.pipe.s.parking.CommitThen(t.ctx, id, c, func(o txn.Outcome, err error) { t.end(t.answer(o, err)) })
	return errParked
}

func (t *task) answer(o txn.Outcome, err error) error {
	t.reply.Result = &txmgrv1.Reply_Outcome{Outcome: wire.FromOutcome(o)}
	return err
}

// end hands the reply over. err is nil when the call went well.
func (t *task) end(err error) {
	p := t.pipe
	p.s.commands.Add(-1)
	o := observation{procedure: t.procedure, code: txn.CodeOK, took: time.Since(t.started)}
	if err != nil {
		o.id, _ = wire.PipeID(t.command.GetId())
		f := wire.FromError(err, t.procedure.op, o.id)
		t.reply.Result = &txmgrv1.Reply_Failure{Failure: f}
		o.code, o.err, o.left = txn.Code(f.GetCode()), err, gone(t.ctx)
	}
	p.s.observe(o)

	p.mu.Lock()
	p.replies = append(p.replies, &t.reply)
	if len(p.replies) == 1 {
		p.changed.Broadcast()
	}
	p.mu.Unlock()
}

// commandOf finds the procedure whose unary form the command is.
func (s *Server) commandOf(c *txmgrv1.Command) *procedure {
	switch c.GetCall().(type) {
	case *txmgrv1.Command_Begin:
		return s.pipeable.begin
	case *txmgrv1.Command_Enlist:
		return s.pipeable.enlist
	case *txmgrv1.Command_Commit:
		return s.pipeable.commit
	case *txmgrv1.Command_Rollback:
		return s.pipeable.rollback
	case *txmgrv1.Command_Vote:
		return s.pipeable.vote
	case *txmgrv1.Command_Delegate:
		return s.pipeable.delegate
	case *txmgrv1.Command_Extend:
		return s.pipeable.extend
	case *txmgrv1.Command_Done:
		return s.pipeable.done
	case *txmgrv1.Command_Get:
		return s.pipeable.get
	default:
		return s.pipeable.unknown
	}
}

// call translates, calls and translates back.
func (t *task) call(id txn.ID) error {
	ctx, c, reply := t.ctx, t.pipe.s.c, &t.reply
	switch call := t.command.GetCall().(type) {
	case *txmgrv1.Command_Begin:
		o, err := wire.ToOptions(id, call.Begin)
		if err != nil {
			return err
		}
		b, err := c.Begin(ctx, o)
		reply.Result = &txmgrv1.Reply_Begin{Begin: wire.FromBegun(b)}
		return err
	case *txmgrv1.Command_Enlist:
		b, err := c.Enlist(ctx, id, wire.ToEnlistment(call.Enlist))
		reply.Result = &txmgrv1.Reply_Enlist{Enlist: wire.FromBranch(b)}
		return err
	case *txmgrv1.Command_Commit:
		return t.commit(id, call.Commit)
	case *txmgrv1.Command_Vote:
		ballot, err := wire.ToBallot(call.Vote)
		if err != nil {
			return err
		}
		return t.answer(c.Vote(ctx, id, ballot))
	case *txmgrv1.Command_Delegate:
		return t.answer(c.Delegate(ctx, id, txn.BranchID(call.Delegate.GetBranch())))
	case *txmgrv1.Command_Rollback:
		return t.answer(c.Rollback(ctx, id, call.Rollback.GetReason()))
	case *txmgrv1.Command_Extend:
		return t.answer(c.Extend(ctx, id, time.Duration(call.Extend.GetTimeout())))
	case *txmgrv1.Command_Done:
		acks, err := wire.ToAcks(call.Done)
		if err != nil {
			return err
		}
		reply.Result = &txmgrv1.Reply_Done{Done: &txmgrv1.DoneReply{}}
		return c.Done(ctx, id, acks...)
	case *txmgrv1.Command_Get:
		i, err := c.Get(ctx, id)
		reply.Result = &txmgrv1.Reply_Get{Get: wire.FromInfo(i)}
		return err
	default:
		return fmt.Errorf("%w: the command is none that this server knows", txn.ErrInvalid)
	}
}
