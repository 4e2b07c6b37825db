package client

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// do makes a call through the pipeline. weight is about the bytes of what the caller put into
// the command.
func (c *Client) do(ctx context.Context, op string, id txn.ID, weight int, cmd *txmgrv1.Command) (*txmgrv1.Reply, error) {
	if weight > maxCommandBytes {
		return nil, newError(op, id, tooLarge(weight))
	}
	cmd.Id = id[:]
	expires := time.Now().Add(c.cfg.RequestTimeout)
	r, err := c.pipeline.send(ctx, expires, cmd, weight+commandOverhead)
	if err == nil {
		return r, nil
	}
	// The rest is the slow path.
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, expires)
		defer cancel()
	}
	first := true
	err = c.retryUntil(ctx, op, id, func() error {
		if first {
			first = false
			return err
		}
		r, err = c.pipeline.send(ctx, expires, cmd, weight+commandOverhead)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// unaryCall makes a call as a request of its own. With several addresses each try gets a
// share of the time that is left, so that a node that hangs does not use up all of it.
func (c *Client) unaryCall(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	return c.request(ctx, c.cfg.RequestTimeout, op, id, func(ctx context.Context, e *endpoint) error {
		ctx, cancel := c.perTryTimeout(ctx)
		defer cancel()
		return call(ctx, e)
	})
}

// longCall is unaryCall without the time limit per try.
func (c *Client) longCall(ctx context.Context, op string, id txn.ID, call func(context.Context, *endpoint) error) error {
	c.probeEndpoints(ctx)
	return c.request(ctx, c.cfg.RequestTimeout, op, id, call)
}

// fanoutCall is longCall for what fans out to participants and may take long.
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

// triesPerTimeout is for how many tries without a response there is time.
const triesPerTimeout = 3

// perTryTimeout limits one try to its share of the time that is left, if there are several
// addresses.
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

// probeEndpoints skips nodes that do not answer at all, before a call that may take long is
// sent to one of several.
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

// traced records whether there is a connection. Without one nothing was sent: this tells
// "unavailable" from "in doubt".
func traced(ctx context.Context) (context.Context, *atomic.Bool) {
	connected := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}), connected
}

// handleTryError classifies the error of one try, and fails over to another endpoint if this
// one did not answer or is unavailable.
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
