package node

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/node/audit"
	"github.com/txmgr/txmgr/node/tokensecret"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// CreateToken implements [admin.Tokens].
func (n adminCalls) CreateToken(ctx context.Context, r admin.TokenRequest) (admin.Token, string, error) {
	const op = "token create"
	if err := r.Check(); err != nil {
		return admin.Token{}, "", txn.Wrap(op, txn.ID{}, err)
	}
	reason, err := audit.OptionalReason(op, txn.ID{}, r.Reason)
	if err != nil {
		return admin.Token{}, "", err
	}
	if textutil.OneLine(r.Name) != r.Name {
		return admin.Token{}, "", &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "the name of a token is one line, without spaces at its ends or two in a row"}
	}
	c := machine.AddToken{ID: n.newTokenID(), Name: r.Name, Role: r.Role, Rate: r.Rate, By: audit.Operator(r.By), Reason: reason}
	if r.TTL > 0 {
		c.Expires = n.conf.wall().Add(r.TTL).UnixMilli()
	}
	secret := tokensecret.New(c.ID)
	c.Hash, _ = tokensecret.Hash(secret)
	res, err := n.proposeCommand(ctx, op, c, nil)
	switch {
	case res.Code == machine.Conflict:
		return admin.Token{}, "", &txn.Error{Op: op, Err: txn.ErrConflict, Detail: fmt.Sprintf("there is a token named %q: take another name, or revoke it first", r.Name)}
	case res.Code == machine.TooMany:
		return admin.Token{}, "", &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: fmt.Sprintf("there are %d tokens, the most that there can be: revoke those that are over", admin.MaxTokens)}
	case err != nil:
		return admin.Token{}, "", err
	}
	made, ok := n.token(c.ID)
	if !ok {
		return admin.Token{}, "", &txn.Error{Op: op, Err: txn.ErrNotFound, Detail: "the token was revoked by another client immediately after its creation"}
	}
	return made.Public(), secret, nil
}

// newTokenID returns an id that no token has.
func (n *Node) newTokenID() string {
	for {
		id := tokensecret.NewID()
		if _, taken := n.token(id); !taken {
			return id
		}
	}
}

func (n *Node) token(idOrName string) (t machine.Token, ok bool) {
	n.fsm.View(func(m *machine.Machine) { t, ok = m.Token(idOrName) })
	return t, ok
}

// Tokens implements [admin.Tokens].
func (n adminCalls) Tokens(ctx context.Context) ([]admin.Token, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("token list", txn.ID{}, err)
	}
	var all []machine.Token
	n.fsm.View(func(m *machine.Machine) { all = m.Tokens() })
	out := make([]admin.Token, len(all))
	for i := range all {
		out[i] = all[i].Public()
	}
	return out, nil
}

// RevokeToken implements [admin.Tokens].
func (n adminCalls) RevokeToken(ctx context.Context, token, by, reason string) error {
	const op = "token revoke"
	reason, err := audit.OptionalReason(op, txn.ID{}, reason)
	if err != nil {
		return err
	}
	if err := n.requireLeader(); err != nil {
		return txn.Wrap(op, txn.ID{}, n.orLogFailure(err))
	}
	unknown := &txn.Error{Op: op, Err: txn.ErrNotFound, Detail: fmt.Sprintf("there is no token %q", token)}
	t, ok := n.token(token)
	if !ok {
		return unknown
	}
	res, err := n.proposeCommand(ctx, op, machine.RemoveToken{ID: t.ID, By: audit.Operator(by), Reason: reason}, nil)
	if res.Code == machine.NoToken {
		return unknown
	}
	return err
}

// AuthenticateToken returns the token of a secret, as far as this node knows. It is false when no
// token has the secret, and when the token has expired by this node's clock.
func (n *Node) AuthenticateToken(secret string) (admin.Token, bool) {
	hash, ok := tokensecret.Hash(secret)
	if !ok {
		return admin.Token{}, false
	}
	var t machine.Token
	n.fsm.View(func(m *machine.Machine) { t, ok = m.TokenByHash(hash) })
	if !ok || t.Expires != 0 && n.conf.wall().UnixMilli() >= t.Expires {
		return admin.Token{}, false
	}
	return t.Public(), true
}
