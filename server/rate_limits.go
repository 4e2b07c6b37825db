package server

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/txmgr/txmgr/txn"
)

// tokenLimiters are the limits of tokens that have one.
type tokenLimiters struct {
	mu      sync.Mutex               // guards by
	byToken map[string]*rate.Limiter // byToken the token's id, whose rate never changes
}

// limiterFor gives the limiter of a token; nil when it has no limit.
func (r *tokenLimiters) limiterFor(t txn.Token) *rate.Limiter {
	if t.Rate == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byToken[t.ID]
	if l == nil {
		if r.byToken == nil || len(r.byToken) >= txn.MaxTokens {
			// More than there can be tokens: some are gone. Who is still there
			// begins with a full second's calls again.
			r.byToken = make(map[string]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Limit(t.Rate), int(t.Rate))
		r.byToken[t.ID] = l
	}
	return l
}

// An address may try this many unknown tokens at once, and one more in each
// floodEvery. maxFloods is how many addresses are told apart; all others share.
const (
	authFailureBurst    = 20
	authFailureInterval = time.Second
	maxTrackedPrefixes  = 4096
)

// authFailureLimiter are the addresses from which unknown tokens came of late.
type authFailureLimiter struct {
	mu        sync.Mutex // guards everything below
	byPrefix  map[netip.Prefix]*rate.Limiter
	shared    *rate.Limiter
	lastSweep time.Time
}

// recordFailure counts an unknown token from the remote address of a request. More than
// zero: there were too many, and for how long its user should stay away.
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

// networkOf is what one caller holds: an address of IPv4, or a /64 of IPv6.
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
