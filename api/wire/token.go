package wire

import (
	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn/admin"
)

// FromTokenRequest gives the message that asks for a token.
func FromTokenRequest(r admin.TokenRequest) *txmgrv1.CreateTokenRequest {
	return &txmgrv1.CreateTokenRequest{
		Name: Text(r.Name), Role: r.Role.String(), Rate: r.Rate, Ttl: formatDuration(r.TTL), By: Text(r.By), Reason: Text(r.Reason),
	}
}

// ToTokenRequest reads the message that asks for a token. Errors are
// [txn.ErrInvalid].
func ToTokenRequest(m *txmgrv1.CreateTokenRequest) (r admin.TokenRequest, err error) {
	r = admin.TokenRequest{Name: m.GetName(), Rate: m.GetRate(), By: m.GetBy(), Reason: m.GetReason()}
	if r.Role, err = admin.ParseRole(m.GetRole()); err != nil {
		return admin.TokenRequest{}, err
	}
	if r.TTL, err = ParseDuration("ttl", m.GetTtl()); err != nil {
		return admin.TokenRequest{}, err
	}
	return r, r.Check()
}

// FromToken gives the message for a token.
func FromToken(t admin.Token) *txmgrv1.Token {
	return &txmgrv1.Token{
		Id: Text(t.ID), Name: Text(t.Name), Role: t.Role.String(), Rate: t.Rate,
		Created: formatTime(t.Created), Expires: optional(formatTime(t.Expires)), By: Text(t.By),
	}
}

// ToToken reads the message for a token.
func ToToken(m *txmgrv1.Token) (admin.Token, error) {
	var r fieldReader
	t := r.token(m)
	return t, r.decodeError("token")
}

func (r *fieldReader) token(m *txmgrv1.Token) admin.Token {
	t := admin.Token{
		ID: m.GetId(), Name: m.GetName(), Rate: m.GetRate(),
		Created: r.time("token.made", m.GetCreated()), Expires: r.time("token.expires", m.GetExpires()), By: m.GetBy(),
	}
	r.enum("token.role", m.GetRole(), &t.Role)
	return t
}

// FromTokens gives the message for tokens.
func FromTokens(ts []admin.Token) *txmgrv1.ListTokensResponse {
	m := &txmgrv1.ListTokensResponse{Tokens: make([]*txmgrv1.Token, len(ts))}
	for n, t := range ts {
		m.Tokens[n] = FromToken(t)
	}
	return m
}

// ToTokens reads the message for tokens.
func ToTokens(m *txmgrv1.ListTokensResponse) ([]admin.Token, error) {
	var r fieldReader
	ts := make([]admin.Token, len(m.GetTokens()))
	for n, t := range m.GetTokens() {
		ts[n] = r.token(t)
	}
	return ts, r.decodeError("tokens")
}
