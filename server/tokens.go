package server

import (
	"context"
	"fmt"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// tokenService is the TokenService.
type tokenService struct{ c admin.Tokens }

func (t *tokenService) Create(ctx context.Context, r *txmgrv1.CreateTokenRequest) (*txmgrv1.CreateTokenResponse, error) {
	req, err := wire.ToTokenRequest(r)
	if err != nil {
		return nil, err
	}
	// The audit log uses these names for other actors.
	if req.Name == auth.RootName || req.Name == auth.SystemActor {
		return nil, fmt.Errorf("%w: the name %q is taken: %s is the token of the root token file, and %s the cluster itself", txn.ErrInvalid, req.Name, auth.RootName, auth.SystemActor)
	}
	req.By = actor(ctx, req.By)
	if err := checkAuditText(req.By, req.Reason); err != nil {
		return nil, err
	}
	made, secret, err := t.c.CreateToken(ctx, req)
	if err != nil {
		return nil, err
	}
	return &txmgrv1.CreateTokenResponse{Token: wire.FromToken(made), Secret: secret}, nil
}

func (t *tokenService) List(ctx context.Context, _ *txmgrv1.ListTokensRequest) (*txmgrv1.ListTokensResponse, error) {
	ts, err := t.c.Tokens(ctx)
	return wire.FromTokens(ts), err
}

func (t *tokenService) Revoke(ctx context.Context, r *txmgrv1.RevokeTokenRequest) (*txmgrv1.RevokeTokenResponse, error) {
	by := actor(ctx, r.GetBy())
	if err := requireReason(by, r.GetReason()); err != nil {
		return nil, err
	}
	if r.GetToken() == "" {
		return nil, fmt.Errorf("%w: token is missing: give its id or name", txn.ErrInvalid)
	}
	return &txmgrv1.RevokeTokenResponse{}, t.c.RevokeToken(ctx, r.GetToken(), by, r.GetReason())
}
