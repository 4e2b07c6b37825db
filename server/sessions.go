package server

import (
	"context"
	"fmt"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Sessions are the calls of clients about their sessions.
type Sessions interface {
	// OpenSession opens a client session, or renews it if one with that id is open.
	OpenSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error)
	// KeepAlive renews a client session.
	KeepAlive(ctx context.Context, id txn.SessionID) (admin.ClientSession, error)
	// CloseSession ends a client session and rolls back its undecided transactions.
	CloseSession(ctx context.Context, id txn.SessionID) error
}

// sessionService is the SessionService.
type sessionService struct {
	c     Sessions
	admin admin.Calls
}

func (s *sessionService) Open(ctx context.Context, r *txmgrv1.OpenSessionRequest) (*txmgrv1.Session, error) {
	o, err := wire.ToSessionOptions(r)
	if err != nil {
		return nil, err
	}
	return session(s.c.OpenSession(ctx, o))
}

func (s *sessionService) KeepAlive(ctx context.Context, r *txmgrv1.KeepAliveRequest) (*txmgrv1.Session, error) {
	id, err := parseSessionID(r.GetId())
	if err != nil {
		return nil, err
	}
	return session(s.c.KeepAlive(ctx, id))
}

func (s *sessionService) Close(ctx context.Context, r *txmgrv1.CloseSessionRequest) (*txmgrv1.CloseSessionResponse, error) {
	id, err := parseSessionID(r.GetId())
	if err != nil {
		return nil, err
	}
	return &txmgrv1.CloseSessionResponse{}, s.c.CloseSession(ctx, id)
}

func (s *sessionService) List(ctx context.Context, r *txmgrv1.ListSessionsRequest) (*txmgrv1.ListSessionsResponse, error) {
	f, err := wire.ToSessionFilter(r)
	if err != nil {
		return nil, err
	}
	all, err := s.admin.Sessions(ctx, f)
	return wire.FromSessions(all), err
}

// parseSessionID reads an id that must not be empty.
func parseSessionID(s string) (txn.SessionID, error) {
	if s == "" {
		return txn.SessionID{}, fmt.Errorf("%w: id is missing: give the session's", txn.ErrInvalid)
	}
	return txn.ParseSessionID(s)
}

func session(s admin.ClientSession, err error) (*txmgrv1.Session, error) {
	if err != nil {
		return nil, err
	}
	return wire.FromSession(s), nil
}
