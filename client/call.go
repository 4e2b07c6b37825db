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
	timeout := c.cfg.RequestTimeout
	started := time.Now()
	r, err := c.pipeline.send(ctx, timeout, cmd, weight+commandOverhead)
	if err == nil {
		return r, nil
	}
	// From here on nothing is fast any more.
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, started.Add(timeout))
		defer cancel()
	}
	first := true
	err = c.retryUntil(ctx, op, id, func() error {
		if first {
			first = false
			return err
		}
		r, err = c.pipeline.send(ctx, timeout, cmd, weight+commandOverhead)
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
		ctx, cancel := c.perTryTimeout(ctx)
		defer cancel()
		return call(ctx, e)
	})
}

// longCall is unaryCall for what may take as long as all tries together.
func (c *Client) longCall(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	c.probeEndpoints(ctx)
	return c.request(ctx, c.cfg.RequestTimeout, op, id, call)
}

// fanoutCall is longCall for what asks participants and may take a while.
func (c *Client) fanoutCall(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	c.probeEndpoints(ctx)
	return c.request(ctx, c.cfg.FanoutTimeout, op, id, call)
}

func (c *Client) request(ctx context.Context, timeout time.Duration, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	return c.retry(ctx, timeout, op, id, func(ctx context.Context) error {
		ctx, connected := traced(ctx)
		e, n := c.currentEndpoint()
		err := call(ctx, e)
		return c.handleTryError(e, n, connected.Load(), err)
	})
}

// triesPerTimeout is how many tries there is time for, of those that have no answer.
const triesPerTimeout = 3

// perTryTimeout gives one try its share of the time that is left, if there are other nodes.
func (c *Client) perTryTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if len(c.endpoints) == 1 {
		return ctx, func() {}
	}
	left := c.cfg.RequestTimeout
	if until, has := ctx.Deadline(); has {
		left = min(left, time.Until(until))
	}
	return context.WithTimeout(ctx, left/triesPerTimeout)
}

// probeEndpoints leaves nodes that do not answer at all, before one of several is asked what
// may take long.
func (c *Client) probeEndpoints(ctx context.Context) {
	if len(c.endpoints) == 1 {
		return
	}
	for range c.endpoints {
		trying, cancel := c.perTryTimeout(ctx)
		e, n := c.currentEndpoint()
		_, err := e.cluster.Status(trying, &txmgrv1.StatusRequest{})
		cancel()
		if err == nil || !isTransportError(classify(e.base, true, err)) || ctx.Err() != nil {
			return
		}
		c.failOver(n)
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

// handleTryError reads the error of one try, and goes to another server if this one did
// not answer, or not now.
func (c *Client) handleTryError(e *endpoint, n uint32, sent bool, err error) error {
	if err == nil {
		return nil
	}
	err = classify(e.base, sent, err)
	if isRetryable(err) || isTransportError(err) {
		c.failOver(n)
	}
	return err
}
