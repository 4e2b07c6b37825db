package client

import (
	"context"
	"errors"
	"fmt"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Join implements [admin.Cluster].
func (c adminCalls) Join(ctx context.Context, address, by, reason string) (admin.Member, error) {
	var res *txmgrv1.Member
	r := &txmgrv1.JoinRequest{Address: wire.Text(address), By: wire.Text(by), Reason: wire.Text(reason)}
	err := c.fanoutCall(ctx, "join", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.cluster.Join(ctx, r)
		return err
	})
	if err != nil {
		return admin.Member{}, err
	}
	return translated(wire.ToMember(res))
}

// Remove implements [admin.Cluster].
func (c adminCalls) Remove(ctx context.Context, node, by, reason string) error {
	r := &txmgrv1.RemoveMemberRequest{Node: wire.Text(node), By: wire.Text(by), Reason: wire.Text(reason)}
	return c.fanoutCall(ctx, "remove", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.cluster.Remove(ctx, r)
		return err
	})
}

// TransferLeader implements [admin.Cluster].
func (c adminCalls) TransferLeader(ctx context.Context, node, by, reason string) error {
	r := &txmgrv1.TransferLeaderRequest{Node: wire.Text(node), By: wire.Text(by), Reason: wire.Text(reason)}
	return c.callNonIdempotent(ctx, "transfer leader", func(ctx context.Context, e *endpoint) error {
		_, err := e.cluster.TransferLeader(ctx, r)
		return err
	})
}

// Leave implements [admin.Cluster].
func (c adminCalls) Leave(ctx context.Context, by, reason string) error {
	if len(c.endpoints) > 1 {
		return newError("leave", txn.ID{}, fmt.Errorf("%w: %d addresses are given, and it is the node that is asked that leaves: give its own", txn.ErrInvalid, len(c.endpoints)))
	}
	r := &txmgrv1.LeaveRequest{By: wire.Text(by), Reason: wire.Text(reason)}
	return c.callNonIdempotent(ctx, "leave", func(ctx context.Context, e *endpoint) error {
		_, err := e.cluster.Leave(ctx, r)
		return err
	})
}

// ResumeRecovery implements [admin.Cluster].
func (c adminCalls) ResumeRecovery(ctx context.Context, by, reason string) error {
	r := &txmgrv1.ResumeRequest{By: wire.Text(by), Reason: wire.Text(reason)}
	return c.unaryCall(ctx, "resume", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.cluster.Resume(ctx, r)
		return err
	})
}

// callNonIdempotent makes a call that must not be executed twice: it is repeated only if it
// surely has not been executed.
func (c *Client) callNonIdempotent(ctx context.Context, op string, call func(context.Context, *endpoint) error) error {
	c.probeEndpoints(ctx)
	ctx, trying, cancel := c.withTimeouts(ctx, c.cfg.FanoutTimeout)
	defer cancel()
	var last mostRelevantError
	var excluded excludedAddresses
	for tries := 0; ; tries++ {
		traced, connected := traced(ctx)
		e, n := c.currentEndpoint()
		err := call(traced, e)
		err = c.handleTryError(e, n, connected.Load(), err)
		if err == nil {
			return nil
		}
		last.observe(trying, err)
		l, shed := (*transportError)(nil), (*wire.RetryAfterError)(nil)
		switch noAnswer := errors.As(err, &l); {
		case c.ctx.Err() != nil:
			return newError(op, txn.ID{}, errClosed)
		case errors.As(err, &shed):
		case noAnswer && l.sent, isRetryable(err):
			return newError(op, txn.ID{}, fmt.Errorf("%w: it may have been done all the same: %w", txn.ErrUnavailable, err))
		case !noAnswer:
			return finalError(op, txn.ID{}, err)
		case excluded.exclude(c, l):
			return newError(op, txn.ID{}, fmt.Errorf("%w: %w", txn.ErrUnavailable, err))
		}
		if !c.sleep(trying, backoff(tries, err)) {
			return newError(op, txn.ID{}, deadlineError(trying, last.err))
		}
	}
}
