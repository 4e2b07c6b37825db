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

// Join adds the node whose peer port is at address: as a learner first, as a voter when it
// has caught up. by names the operator.
func (c *Client) Join(ctx context.Context, address, by string) (admin.Member, error) {
	var res *txmgrv1.Member
	r := &txmgrv1.JoinRequest{Address: wire.Text(address), By: wire.Text(by)}
	err := c.fanoutCall(ctx, "join", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.cluster.Join(ctx, r)
		return err
	})
	if err != nil {
		return admin.Member{}, err
	}
	return translated(wire.ToMember(res))
}

// Remove removes a node, by its id or name, from the cluster permanently. [txn.ErrConflict]:
// the rest would have no quorum.
func (c *Client) Remove(ctx context.Context, node, by, reason string) error {
	r := &txmgrv1.RemoveMemberRequest{Node: wire.Text(node), By: wire.Text(by), Reason: wire.Text(reason)}
	return c.fanoutCall(ctx, "remove", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.cluster.Remove(ctx, r)
		return err
	})
}

// TransferLeader hands the leadership to another node; if node is empty, to any that is up to
// date. It is not repeated once it may have arrived: a second execution would transfer the
// leadership again.
func (c *Client) TransferLeader(ctx context.Context, node string) error {
	r := &txmgrv1.TransferLeaderRequest{Node: wire.Text(node)}
	return c.callNonIdempotent(ctx, "transfer leader", func(ctx context.Context, e *endpoint) error {
		_, err := e.cluster.TransferLeader(ctx, r)
		return err
	})
}

// Leave removes the node that is called from the cluster permanently. With several addresses
// it is [txn.ErrInvalid]: the node would be undefined.
func (c *Client) Leave(ctx context.Context, by string) error {
	if len(c.endpoints) > 1 {
		return newError("leave", txn.ID{}, fmt.Errorf("%w: %d addresses are given, and it is the node that is asked that leaves: give its own", txn.ErrInvalid, len(c.endpoints)))
	}
	r := &txmgrv1.LeaveRequest{By: wire.Text(by)}
	return c.callNonIdempotent(ctx, "leave", func(ctx context.Context, e *endpoint) error {
		_, err := e.cluster.Leave(ctx, r)
		return err
	})
}

// ResumeRecovery resumes recovery, which is paused after a restore. If recovery is not
// paused, nothing changes.
func (c *Client) ResumeRecovery(ctx context.Context, by, reason string) error {
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
