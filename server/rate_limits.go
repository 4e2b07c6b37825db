package server

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/txmgr/txmgr/txn/admin"
)

// tokenLimiters holds the rate limiters of the tokens that have a limit.
type tokenLimiters struct {
	mu      sync.Mutex               // guards byToken
	byToken map[string]*rate.Limiter // by the token's id, whose rate never changes
}

// limiterFor returns the limiter of a token; nil if it has no limit.
func (r *tokenLimiters) limiterFor(t admin.Token) *rate.Limiter {
	if t.Rate == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byToken[t.ID]
	if l == nil {
		if r.byToken == nil || len(r.byToken) >= admin.MaxTokens {
			// More limiters than there can be tokens: some tokens are gone. The remaining
			// ones start again with one second's worth of calls.
			r.byToken = make(map[string]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Limit(t.Rate), int(t.Rate))
		r.byToken[t.ID] = l
	}
	return l
}

// An address may try authFailureBurst unknown tokens at once, and one more in each
// authFailureInterval. maxTrackedPrefixes addresses are tracked; all others share one
// limiter.
const (
	authFailureBurst    = 20
	authFailureInterval = time.Second
	maxTrackedPrefixes  = 4096
)

// authFailureLimiter limits unknown tokens by the address from which they came.
type authFailureLimiter struct {
	mu        sync.Mutex // guards everything below
	byPrefix  map[netip.Prefix]*rate.Limiter
	shared    *rate.Limiter
	lastSweep time.Time
}

// recordFailure counts an unknown token from the remote address of a request. A result above
// zero means that there were too many, and is the time after which the client may retry.
func (f *authFailureLimiter) recordFailure(remote string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.limiterLocked(networkOf(remote), now)
	if l.AllowN(now, 1) {
		return 0
	}
	return authFailureBurst * authFailureInterval / 2
}

func (f *authFailureLimiter) limiterLocked(p netip.Prefix, now time.Time) *rate.Limiter {
	if l := f.byPrefix[p]; l != nil {
		return l
	}
	if f.byPrefix == nil {
		f.byPrefix = make(map[netip.Prefix]*rate.Limiter)
		f.shared = rate.NewLimiter(rate.Every(authFailureInterval), authFailureBurst)
	}
	if len(f.byPrefix) >= maxTrackedPrefixes && now.Sub(f.lastSweep) >= time.Second {
		f.lastSweep = now
		for k, l := range f.byPrefix {
			if l.TokensAt(now) >= authFailureBurst {
				delete(f.byPrefix, k)
			}
		}
	}
	if len(f.byPrefix) >= maxTrackedPrefixes {
		return f.shared
	}
	l := rate.NewLimiter(rate.Every(authFailureInterval), authFailureBurst)
	f.byPrefix[p] = l
	return l
}

// networkOf returns the network that one client is assumed to hold: an IPv4 address, or an
// IPv6 /64.
func networkOf(remote string) netip.Prefix {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := a.Addr().Unmap(), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.WithZone("").Prefix(bits) // the bits fit
	return p
}
