package auth

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// Principal is the authenticated caller of a call. Its zero value is any caller:
// authentication is off.
type Principal struct {
	Name   string // of the token
	ID     string // of the token
	Secret string
	// Unverified: this node does not know the token. The leader may know it, because a
	// follower lags behind.
	Unverified bool
	limiter    *rate.Limiter // nil: no limit of its own
}

// RootName is the name of the token in the root token file; SystemActor is the actor in the
// audit log for what the cluster does by itself.
const (
	RootName    = "root"
	SystemActor = "txmgr"
)

// Allow counts one call against the token's rate limit.
func (b *Principal) Allow(now time.Time) error {
	if b.limiter == nil || b.limiter.AllowN(now, 1) {
		return nil
	}
	after := max(time.Duration(float64(time.Second)/float64(b.limiter.Limit())), 50*time.Millisecond)
	return &wire.RetryAfterError{After: after, Err: fmt.Errorf("%w: token %q may make %v calls a second at this node, and has", txn.ErrUnavailable, b.Name, b.limiter.Limit())}
}
