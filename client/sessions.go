package client

import (
	"context"
	"errors"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// CreateSession opens a session that the caller renews with [Client.KeepAlive].
// [Client.OpenSession] opens one that keeps itself alive.
func (c *Client) CreateSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error) {
	if !o.ID.IsZero() {
		return c.createSession(ctx, o)
	}
	o.ID = random.SessionID() // so that the call can be repeated
	s, err := c.createSession(ctx, o)
	if errors.Is(err, txn.ErrSessionExpired) { // between two tries: it was never used
		o.ID = random.SessionID()
		s, err = c.createSession(ctx, o)
	}
	return s, err
}

func (c *Client) createSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error) {
	return c.sessionCall(ctx, "open session", func(ctx context.Context, e *endpoint) (*txmgrv1.Session, error) {
		return e.sessions.Open(ctx, wire.FromSessionOptions(o))
	})
}

// KeepAlive renews a session. Nil means that it is open, and does not expire before its TTL
// has passed, counted from the call.
//
// [txn.ErrNotFound]: it has ended; with [txn.ErrSessionExpired], because it was not renewed
// in time.
func (c *Client) KeepAlive(ctx context.Context, id txn.SessionID) (admin.ClientSession, error) {
	return c.sessionCall(ctx, "keep alive", func(ctx context.Context, e *endpoint) (*txmgrv1.Session, error) {
		return e.sessions.KeepAlive(ctx, &txmgrv1.KeepAliveRequest{Id: wire.FormatSession(id)})
	})
}

func (c *Client) sessionCall(ctx context.Context, op string, call func(context.Context, *endpoint) (*txmgrv1.Session, error)) (admin.ClientSession, error) {
	var res *txmgrv1.Session
	err := c.unaryCall(ctx, op, txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = call(ctx, e)
		return err
	})
	if err != nil {
		return admin.ClientSession{}, err
	}
	return translated(wire.ToSession(res))
}

// CloseSession ends a session and rolls back its undecided transactions.
//
// [txn.ErrNotFound]: it has expired, or is unknown.
func (c *Client) CloseSession(ctx context.Context, id txn.SessionID) error {
	return c.unaryCall(ctx, "close session", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.sessions.Close(ctx, &txmgrv1.CloseSessionRequest{Id: wire.FormatSession(id)})
		return err
	})
}

// Sessions implements [admin.Calls].
func (c adminCalls) Sessions(ctx context.Context, f admin.SessionFilter) ([]admin.ClientSession, error) {
	var res *txmgrv1.ListSessionsResponse
	err := c.unaryCall(ctx, "list sessions", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.sessions.List(ctx, wire.FromSessionFilter(f))
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToSessions(res))
}
