package client

import (
	"context"
	"errors"
	"fmt"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// Ping checks that a coordinator answers this client: it calls each address once, in order,
// and returns nil at the first response. A program that calls it at its start detects a wrong
// address, scheme, certificate or token at once, where other calls would be retried until
// their context ends. Ping does not check that the cluster has a leader.
//
// [txn.ErrUnavailable]: no address answered; the error contains the reason for each.
// [txn.ErrDenied]: the token or certificate is not accepted.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	var failed []error
	for range c.endpoints {
		trying, cancel := c.perTryTimeout(ctx)
		e, n := c.currentEndpoint()
		_, err := e.cluster.Status(trying, &txmgrv1.StatusRequest{})
		cancel()
		switch err = classify(e.base, false, err); {
		case err == nil:
			c.reached.CompareAndSwap(false, true)
			return nil
		case c.ctx.Err() != nil:
			return newError("ping", txn.ID{}, errClosed)
		case !isTransportError(err) && !errors.Is(err, txn.ErrUnavailable):
			return finalError("ping", txn.ID{}, err)
		}
		failed = append(failed, err)
		c.failOver(n)
	}
	return newError("ping", txn.ID{}, fmt.Errorf("%w: %w", txn.ErrUnavailable, errors.Join(failed...)))
}
