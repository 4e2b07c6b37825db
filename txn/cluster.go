package txn

import (
	"context"
	"fmt"
	"time"
)

// Member is one node of the cluster, as the node that was asked sees it.
type Member struct {
	// ID was made with the node's data directory, and is never used for another.
	ID string `json:"id"`
	// Name is a description for operators; empty when the node was given none.
	Name string `json:"name"`
	// RaftAddr is the address at which the other nodes reach it, and API the URL at which
	// clients do; API is empty until the node has reported it.
	RaftAddr string `json:"raft_addr"`
	API      string `json:"api"`
	// Version is the release that the node reported.
	Version string `json:"version"`
	// Voter says that the node votes in the cluster; otherwise it is a learner, which is still
	// catching up.
	Voter bool `json:"voter"`
	// Leader says that the node leads; Self that it is the node that answers.
	Leader bool `json:"leader"`
	Self   bool `json:"self"`
	// LastContact is how long ago the leader was last in contact with the node, and Behind how
	// many log entries the node lacks. Only the leader knows either; -1 otherwise.
	LastContact Duration `json:"last_contact"`
	LogLag      int64    `json:"log_lag"`
}

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
	return 0, fmt.Errorf("%w: role %q: want reader, client, operator or admin", ErrInvalid, s)
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
	Name string        // 1 to MaxTokenName bytes
	Role Role          // required
	Rate uint32        // calls a second; 0 means no limit
	TTL  time.Duration // 0 means for ever
	By   string        // who asks
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
		return fmt.Errorf("%w: the name of a token has %d bytes; want 1 to %d", ErrInvalid, len(r.Name), MaxTokenName)
	case r.Role < RoleReader || r.Role > RoleAdmin:
		return fmt.Errorf("%w: a token needs a role: reader, client, operator or admin", ErrInvalid)
	case r.TTL < 0:
		return fmt.Errorf("%w: the token's time is %v; want 0 for ever, or more", ErrInvalid, r.TTL)
	}
	return nil
}

// Backup describes a copy of the whole state.
type Backup struct {
	Cluster     string    `json:"cluster"`
	Incarnation uint64    `json:"incarnation"`
	Index       uint64    `json:"index"` // the log entry up to which it reaches
	Term        uint64    `json:"term"`
	Tick        uint64    `json:"tick"`
	Taken       time.Time `json:"taken"`
	Bytes       int64     `json:"bytes"`
	SHA256      string    `json:"sha256"`
}

type staleKey struct{}

// AllowStale marks calls that may be answered by a node that does not lead, from what it has
// applied so far: [Manager.Get] and the lists. Decisions are made by the leader all the same.
func AllowStale(ctx context.Context) context.Context {
	return context.WithValue(ctx, staleKey{}, true)
}

// StaleAllowed reports whether [AllowStale] was called.
func StaleAllowed(ctx context.Context) bool {
	allowed, _ := ctx.Value(staleKey{}).(bool)
	return allowed
}
