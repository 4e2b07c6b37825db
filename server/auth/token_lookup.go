package auth

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// lookupToken finds the token of a secret.
func (a *Authenticator) lookupToken(secret string) (admin.Token, bool) {
	if a.root.matches(secret, time.Now()) {
		return admin.Token{ID: RootName, Name: RootName, Role: admin.RoleAdmin}, true
	}
	return a.c.AuthenticateToken(secret)
}

// A new token is known on the followers within tokenPropagation. awaitToken polls every
// tokenPollInterval.
const (
	tokenPropagation  = 500 * time.Millisecond
	tokenPollInterval = 10 * time.Millisecond
)

// awaitToken finds the token of a secret on a follower, to which it may still be replicated.
// At most maxUnverified calls wait or are forwarded with an unknown token at once.
func (a *Authenticator) awaitToken(ctx context.Context, secret string) (admin.Token, bool) {
	if api, here := a.c.Leader(); here || api == "" {
		return admin.Token{}, false
	}
	release, err := a.AcquireUnverified()
	if err != nil {
		return admin.Token{}, false
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, tokenPropagation)
	defer cancel()
	poll := time.NewTicker(tokenPollInterval)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			if t, ok := a.lookupToken(secret); ok {
				return t, true
			}
		case <-ctx.Done():
			return admin.Token{}, false
		}
	}
}

// Knows reports whether the secret is that of a valid token, as far as this node knows.
func (a *Authenticator) Knows(secret string) bool {
	_, ok := a.lookupToken(secret)
	return ok
}

// maxUnverified is how many calls at once may be forwarded, or wait, whose tokens this node
// does not know.
const maxUnverified = 32

// AcquireUnverified takes a place for a call whose token this node does not know, until
// release is called. The error is [txn.ErrUnavailable]: there is none.
func (a *Authenticator) AcquireUnverified() (release func(), err error) {
	if n := a.unverified.Add(1); n > maxUnverified {
		a.unverified.Add(-1)
		return nil, fmt.Errorf("%w: %d calls are being passed on whose tokens this node does not know", txn.ErrUnavailable, maxUnverified)
	}
	return func() { a.unverified.Add(-1) }, nil
}

// maxSecret is the length of the longest secret that is checked, in bytes.
const maxSecret = 256

// secretOf returns the secret that a request carries.
func secretOf(r *http.Request) (string, bool) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	return secret, strings.EqualFold(scheme, "Bearer") && secret != "" && len(secret) <= maxSecret
}

// equalSecrets compares secrets in a time that does not depend on their contents.
func equalSecrets(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
