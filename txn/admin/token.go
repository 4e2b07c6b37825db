package admin

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Role says what the bearer of a token may do. Each role includes the ones before it.
type Role uint8

const (
	// RoleReader may read.
	RoleReader Role = iota + 1
	// RoleClient may begin, decide and report transactions.
	RoleClient
	// RoleOperator may also resolve transactions in doubt, scan, and change participants.
	RoleOperator
	// RoleAdmin may also change the cluster and its tokens.
	RoleAdmin
)

var roleNames = [...]string{RoleReader: "reader", RoleClient: "client", RoleOperator: "operator", RoleAdmin: "admin"}

// String gives the role's name, or the number of a value that is no role.
func (r Role) String() string {
	if r >= RoleReader && int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// ParseRole is the inverse of String. Errors are [ErrInvalid].
func ParseRole(s string) (Role, error) {
	for r, name := range roleNames {
		if name == s && name != "" {
			return Role(r), nil
		}
	}
	return 0, fmt.Errorf("%w: role %q: want reader, client, operator or admin", txn.ErrInvalid, s)
}

// MarshalText implements [encoding.TextMarshaler].
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Role) UnmarshalText(b []byte) error {
	var err error
	*r, err = ParseRole(string(b))
	return err
}

// Token authenticates its bearer. The secret is not part of it: the cluster knows only its
// hash.
type Token struct {
	ID   string `json:"id"` // 8 letters, also the beginning of the secret
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Rate is the largest number of calls per second on one node, with bursts of as many; 0
	// means no limit of its own.
	Rate uint32 `json:"rate"`
	// Created and Expires are wall-clock times; Expires is zero when the token never expires.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	By      string    `json:"by"` // who made it
}

// TokenRequest describes a token to make.
type TokenRequest struct {
	Name   string        // 1 to MaxTokenName bytes
	Role   Role          // required
	Rate   uint32        // calls a second; 0 means no limit
	TTL    time.Duration // 0 means for ever
	By     string        // who asks
	Reason string        // why; may be empty
}

// MaxTokenName is the longest name of a token, in bytes, and MaxTokens how many tokens there
// may be.
const (
	MaxTokenName = 64
	MaxTokens    = 10_000
)

// Check reports what is wrong with a request. Errors are [ErrInvalid].
func (r TokenRequest) Check() error {
	switch {
	case r.Name == "" || len(r.Name) > MaxTokenName:
		return fmt.Errorf("%w: the name of a token has %d bytes; want 1 to %d", txn.ErrInvalid, len(r.Name), MaxTokenName)
	case r.Role < RoleReader || r.Role > RoleAdmin:
		return fmt.Errorf("%w: a token needs a role: reader, client, operator or admin", txn.ErrInvalid)
	case r.TTL < 0:
		return fmt.Errorf("%w: the token's time is %v; want 0 for ever, or more", txn.ErrInvalid, r.TTL)
	}
	return nil
}
