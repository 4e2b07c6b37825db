package server

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/txmgr/txmgr/txn"
)

// rates are the limits of tokens that have one.
type rates struct {
	mu sync.Mutex               // guards by
	by map[string]*rate.Limiter // by the token's id, whose rate never changes
}

// of gives the limiter of a token; nil when it has no limit.
func (r *rates) of(t txn.Token) *rate.Limiter {
	if t.Rate == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.by[t.ID]
	if l == nil {
		if r.by == nil || len(r.by) >= txn.MaxTokens {
			// More than there can be tokens: some are gone. Who is still there
			// begins with a full second's calls again.
			r.by = make(map[string]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Limit(t.Rate), int(t.Rate))
		r.by[t.ID] = l
	}
	return l
}

// An address may try this many unknown tokens at once, and one more in each
// floodEvery. maxFloods is how many addresses are told apart; all others share.
const (
	floodBurst = 20
	floodEvery = time.Second
	maxFloods  = 4096
)

// floods are the addresses from which unknown tokens came of late.
type floods struct {
	mu    sync.Mutex // guards everything below
	by    map[netip.Prefix]*rate.Limiter
	rest  *rate.Limiter
	swept time.Time
}

// failed counts an unknown token from the remote address of a request. More than
// zero: there were too many, and for how long its user should stay away.
func (f *floods) failed(remote string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.limiterLocked(networkOf(remote), now)
	if l.AllowN(now, 1) {
		return 0
	}
	return floodBurst * floodEvery / 2
}

func (f *floods) limiterLocked(p netip.Prefix, now time.Time) *rate.Limiter {
	if l := f.by[p]; l != nil {
		return l
	}
	if f.by == nil {
		f.by = make(map[netip.Prefix]*rate.Limiter)
		f.rest = rate.NewLimiter(rate.Every(floodEvery), floodBurst)
	}
	if len(f.by) >= maxFloods && now.Sub(f.swept) >= time.Second {
		f.swept = now
		for k, l := range f.by {
			if l.TokensAt(now) >= floodBurst {
				delete(f.by, k)
			}
		}
	}
	if len(f.by) >= maxFloods {
		return f.rest
	}
	l := rate.NewLimiter(rate.Every(floodEvery), floodBurst)
	f.by[p] = l
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
