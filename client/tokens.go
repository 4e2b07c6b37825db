package client

import (
	"context"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// CreateToken implements [admin.Tokens].
func (c adminCalls) CreateToken(ctx context.Context, r admin.TokenRequest) (admin.Token, string, error) {
	var res *txmgrv1.CreateTokenResponse
	request := wire.FromTokenRequest(r)
	err := c.callNonIdempotent(ctx, "create token", func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.tokens.Create(ctx, request)
		return err
	})
	if err != nil {
		return admin.Token{}, "", err
	}
	t, err := translated(wire.ToToken(res.GetToken()))
	return t, res.GetSecret(), err
}

// Tokens implements [admin.Tokens].
func (c adminCalls) Tokens(ctx context.Context) ([]admin.Token, error) {
	var res *txmgrv1.ListTokensResponse
	err := c.unaryCall(ctx, "list tokens", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.tokens.List(ctx, &txmgrv1.ListTokensRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToTokens(res))
}

// RevokeToken implements [admin.Tokens].
func (c adminCalls) RevokeToken(ctx context.Context, token, by, reason string) error {
	r := &txmgrv1.RevokeTokenRequest{Token: wire.Text(token), By: wire.Text(by), Reason: wire.Text(reason)}
	return c.unaryCall(ctx, "revoke token", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.tokens.Revoke(ctx, r)
		return err
	})
}
