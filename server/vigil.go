package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// vigilEvery is how often the reasons for which calls were let in are looked at,
// and tokensEvery how many times less often their tokens.
const (
	vigilEvery  = 50 * time.Millisecond
	tokensEvery = 20
)

var errDeposed = fmt.Errorf("%w: another node leads now", txn.ErrUnavailable)

// vigil ends calls that outlast the reasons for which they were let in: the node
// that leads, and the token. One goroutine looks for all of them, as long as there
// are any.
type vigil struct {
	s *Server

	mu      sync.Mutex // guards everything below
	watched map[*watched]struct{}
	running bool
}

// watched is a call and what it stands on.
type watched struct {
	lead   *lead  // nil: it does not matter who leads
	secret string // empty: it has no token that is known here
	end    context.CancelCauseFunc
}

// lead is who leads, as a call found it.
type lead struct {
	api  string
	here bool
}

// keep gives a context that ends when the server drains, or what the call stands
// on is gone, with the cause; release has to be called when the call is over.
func (v *vigil) keep(l *lead, secret string) (ending context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(v.s.draining)
	w := &watched{lead: l, secret: secret, end: cancel}
	v.mu.Lock()
	v.watched[w] = struct{}{}
	if !v.running {
		v.running = true
		go v.run()
	}
	v.mu.Unlock()
	return ctx, func() {
		v.mu.Lock()
		delete(v.watched, w)
		v.mu.Unlock()
		cancel(nil)
	}
}

func (v *vigil) run() {
	tick := time.NewTicker(vigilEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		<-tick.C
		api, here := v.s.c.Leader()
		if !v.look(lead{api, here}, n%tokensEvery == 0) {
			return
		}
	}
}

// look ends what has to end. It is false when nothing is watched any more.
func (v *vigil) look(now lead, tokens bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.watched {
		switch {
		case w.lead != nil && *w.lead != now:
			w.end(errDeposed)
		case tokens && w.secret != "" && !v.s.auth.good(w.secret):
			w.end(errRevoked)
		}
	}
	v.running = len(v.watched) > 0
	return v.running
}

var errRevoked = fmt.Errorf("%w: the token was revoked or has expired", txn.ErrDenied)

// good reports whether a secret is still one.
func (a *auth) good(secret string) bool {
	_, ok := a.token(secret)
	return ok
}
