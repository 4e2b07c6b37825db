package server

import (
	"context"
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// carryOut is the whole of one command but for its observation.
func (p *pipe) carryOut(ctx context.Context, c *txmgrv1.Command, reply *txmgrv1.Reply) (procedure *procedure, err error) {
	procedure = p.s.commandOf(c)
	defer func() {
		if r := recover(); r != nil {
			err = p.s.panicked(procedure, r)
		}
	}()
	n := p.s.commands.Add(1)
	defer p.s.commands.Add(-1)
	if n > int64(p.s.cfg.MaxCommands) {
		err := fmt.Errorf("%w: %d commands are running, which is the limit", txn.ErrUnavailable, p.s.cfg.MaxCommands)
		return procedure, &wire.RetryAfterError{After: retryAfter, Err: err}
	}
	if err := p.bearer.take(time.Now()); err != nil {
		return procedure, err
	}
	id, err := wire.PipeID(c.GetId())
	if err != nil {
		return procedure, err
	}
	return procedure, p.call(ctx, id, c, reply)
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
func (p *pipe) call(ctx context.Context, id txn.ID, c *txmgrv1.Command, reply *txmgrv1.Reply) error {
	switch call := c.GetCall().(type) {
	case *txmgrv1.Command_Begin:
		o, err := wire.ToOptions(id, call.Begin)
		if err != nil {
			return err
		}
		b, err := p.s.c.Begin(ctx, o)
		reply.Result = &txmgrv1.Reply_Begin{Begin: wire.FromBegun(b)}
		return err
	case *txmgrv1.Command_Enlist:
		b, err := p.s.c.Enlist(ctx, id, wire.ToEnlistment(call.Enlist))
		reply.Result = &txmgrv1.Reply_Enlist{Enlist: wire.FromBranch(b)}
		return err
	case *txmgrv1.Command_Commit:
		commitment, err := wire.ToCommitment(call.Commit)
		if err != nil {
			return err
		}
		return answer(reply)(p.s.c.Commit(ctx, id, commitment))
	case *txmgrv1.Command_Vote:
		ballot, err := wire.ToBallot(call.Vote)
		if err != nil {
			return err
		}
		return answer(reply)(p.s.c.Vote(ctx, id, ballot))
	case *txmgrv1.Command_Delegate:
		return answer(reply)(p.s.c.Delegate(ctx, id, txn.BranchID(call.Delegate.GetBranch())))
	case *txmgrv1.Command_Rollback:
		return answer(reply)(p.s.c.Rollback(ctx, id, call.Rollback.GetReason()))
	case *txmgrv1.Command_Extend:
		return answer(reply)(p.s.c.Extend(ctx, id, time.Duration(call.Extend.GetTimeout())))
	case *txmgrv1.Command_Done:
		acks, err := wire.ToAcks(call.Done)
		if err != nil {
			return err
		}
		reply.Result = &txmgrv1.Reply_Done{Done: &txmgrv1.DoneReply{}}
		return p.s.c.Done(ctx, id, acks...)
	case *txmgrv1.Command_Get:
		i, err := p.s.c.Get(ctx, id)
		reply.Result = &txmgrv1.Reply_Get{Get: wire.FromInfo(i)}
		return err
	default:
		return fmt.Errorf("%w: the command is none that this server knows", txn.ErrInvalid)
	}
}

func answer(reply *txmgrv1.Reply) func(txn.Outcome, error) error {
	return func(o txn.Outcome, err error) error {
		reply.Result = &txmgrv1.Reply_Outcome{Outcome: wire.FromOutcome(o)}
		return err
	}
}
