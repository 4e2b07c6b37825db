package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/server/auth"
	"github.com/txmgr/txmgr/txn"
)

// recheckInterval is how often the conditions of the watched calls are checked; their tokens
// are checked once in rechecksPerTokenCheck times.
const (
	recheckInterval       = 50 * time.Millisecond
	rechecksPerTokenCheck = 20
)

var errLeaderChanged = fmt.Errorf("%w: another node leads now", txn.ErrUnavailable)

// callWatcher ends long calls whose conditions no longer hold: the leader they were admitted
// under, and the token. One goroutine checks all of them, and runs only while there are any.
type callWatcher struct {
	c        auth.Coordinator
	auth     *auth.Authenticator
	draining context.Context

	mu      sync.Mutex // guards everything below
	calls   map[*watchedCall]struct{}
	running bool
}

// watchedCall is a running call and the conditions under which it was admitted.
type watchedCall struct {
	leader *leaderInfo // nil: independent of the leader
	secret string      // empty: it has no token that this node knows
	cancel context.CancelCauseFunc
}

// leaderInfo is the leader at the time a call was admitted.
type leaderInfo struct {
	api  string
	here bool
}

// watch returns a context that ends when the server drains or when a condition of the call no
// longer holds, with the cause. The caller has to call release when the call has ended.
func (v *callWatcher) watch(l *leaderInfo, secret string) (ending context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(v.draining)
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
		api, here := v.c.Leader()
		if !v.recheck(leaderInfo{api, here}, n%rechecksPerTokenCheck == 0) {
			return
		}
	}
}

// recheck ends the calls whose conditions no longer hold. It returns false when no call is
// watched any more.
func (v *callWatcher) recheck(now leaderInfo, tokens bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.calls {
		switch {
		case w.leader != nil && *w.leader != now:
			w.cancel(errLeaderChanged)
		case tokens && w.secret != "" && !v.auth.Knows(w.secret):
			w.cancel(errRevoked)
		}
	}
	v.running = len(v.calls) > 0
	return v.running
}

var errRevoked = fmt.Errorf("%w: the token was revoked or has expired", txn.ErrDenied)
