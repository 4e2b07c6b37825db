package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// recheckInterval is how often the reasons for which calls were let in are looked at,
// and tokensEvery how many times less often their tokens.
const (
	recheckInterval       = 50 * time.Millisecond
	rechecksPerTokenCheck = 20
)

var errLeaderChanged = fmt.Errorf("%w: another node leads now", txn.ErrUnavailable)

// callWatcher ends calls that outlast the reasons for which they were let in: the node
// that leads, and the token. One goroutine looks for all of them, as long as there
// are any.
type callWatcher struct {
	s *Server

	mu      sync.Mutex // guards everything below
	calls   map[*watchedCall]struct{}
	running bool
}

// watchedCall is a call and what it stands on.
type watchedCall struct {
	leader *leaderInfo // nil: it does not matter who leads
	secret string      // empty: it has no token that is known here
	cancel context.CancelCauseFunc
}

// leaderInfo is who leads, as a call found it.
type leaderInfo struct {
	api  string
	here bool
}

// watch gives a context that ends when the server drains, or what the call stands
// on is gone, with the cause; release has to be called when the call is over.
func (v *callWatcher) watch(l *leaderInfo, secret string) (ending context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(v.s.draining)
	w := &watchedCall{leader: l, secret: secret, cancel: cancel}
	v.mu.Lock()
	v.calls[w] = struct{}{}
	if !v.running {
		v.running = true
		go v.run()
	}
	v.mu.Unlock()
	return ctx, func() {
		v.mu.Lock()
		delete(v.calls, w)
		v.mu.Unlock()
		cancel(nil)
	}
}

func (v *callWatcher) run() {
	tick := time.NewTicker(recheckInterval)
	defer tick.Stop()
	for n := 1; ; n++ {
		<-tick.C
		api, here := v.s.c.Leader()
		if !v.recheck(leaderInfo{api, here}, n%rechecksPerTokenCheck == 0) {
			return
		}
	}
}

// recheck ends what has to end. It is false when nothing is watched any more.
func (v *callWatcher) recheck(now leaderInfo, tokens bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.calls {
		switch {
		case w.leader != nil && *w.leader != now:
			w.cancel(errLeaderChanged)
		case tokens && w.secret != "" && !v.s.auth.tokenValid(w.secret):
			w.cancel(errRevoked)
		}
	}
	v.running = len(v.calls) > 0
	return v.running
}

var errRevoked = fmt.Errorf("%w: the token was revoked or has expired", txn.ErrDenied)

// tokenValid reports whether a secret is still one.
func (a *auth) tokenValid(secret string) bool {
	_, ok := a.lookupToken(secret)
	return ok
}
