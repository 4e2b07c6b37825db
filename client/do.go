package client

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// do makes a call through the pipe. weight is about the bytes of what the
// caller put into the command.
func (c *Client) do(ctx context.Context, op string, id txn.ID, weight int, cmd *txmgrv1.Command) (*txmgrv1.Reply, error) {
	if weight > maxCommandBytes {
		return nil, newError(op, id, tooLarge(weight))
	}
	cmd.Id = id[:]
	patience := c.cfg.RequestTimeout
	started := time.Now()
	r, err := c.pipe.send(ctx, patience, cmd, weight+commandOverhead)
	if err == nil {
		return r, nil
	}
	// From here on nothing is fast any more.
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, started.Add(patience))
		defer cancel()
	}
	first := true
	err = c.retryUntil(ctx, op, id, func() error {
		if first {
			first = false
			return err
		}
		r, err = c.pipe.send(ctx, patience, cmd, weight+commandOverhead)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// unaryCall makes a call as a request of its own. With several addresses it is tried
// in shares of its time: a node that hangs must not use up the patience with all.
func (c *Client) unaryCall(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	return c.request(ctx, c.cfg.RequestTimeout, op, id, func(ctx context.Context, e *endpoint) error {
		ctx, cancel := c.share(ctx)
		defer cancel()
		return call(ctx, e)
	})
}

// longCall is unaryCall for what may take as long as all tries together.
func (c *Client) longCall(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	c.soundOut(ctx)
	return c.request(ctx, c.cfg.RequestTimeout, op, id, call)
}

// askingCall is longCall for what asks participants and may take a while.
func (c *Client) askingCall(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	c.soundOut(ctx)
	return c.request(ctx, c.cfg.AskTimeout, op, id, call)
}

func (c *Client) request(ctx context.Context, patience time.Duration, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	return c.retry(ctx, patience, op, id, func(ctx context.Context) error {
		ctx, connected := traced(ctx)
		e, n := c.at()
		err := call(ctx, e)
		return c.judge(e, n, connected.Load(), err)
	})
}

// shares is how many tries there is time for, of those that have no answer.
const shares = 3

// share gives one try its share of the time that is left, if there are other nodes.
func (c *Client) share(ctx context.Context) (context.Context, context.CancelFunc) {
	if len(c.endpoints) == 1 {
		return ctx, func() {}
	}
	left := c.cfg.RequestTimeout
	if until, has := ctx.Deadline(); has {
		left = min(left, time.Until(until))
	}
	return context.WithTimeout(ctx, left/shares)
}

// soundOut leaves nodes that do not answer at all, before one of several is asked what
// may take long.
func (c *Client) soundOut(ctx context.Context) {
	if len(c.endpoints) == 1 {
		return
	}
	for range c.endpoints {
		trying, cancel := c.share(ctx)
		e, n := c.at()
		_, err := e.cluster.Status(trying, &txmgrv1.StatusRequest{})
		cancel()
		if err == nil || !isLost(lost(e.base, true, err)) || ctx.Err() != nil {
			return
		}
		c.leave(n)
	}
}

// traced notes whether there is a connection. Without one nothing was sent: that
// is what tells "unavailable" from "in doubt".
func traced(ctx context.Context) (context.Context, *atomic.Bool) {
	connected := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), connected
}

// judge reads the error of one try, and goes to another server if this one did
// not answer, or not now.
func (c *Client) judge(e *endpoint, n uint32, sent bool, err error) error {
	if err == nil {
		return nil
	}
	err = lost(e.base, sent, err)
	if again(err) || isLost(err) {
		c.leave(n)
	}
	return err
}
