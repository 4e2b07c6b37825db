package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/txn"
)

// guest is an application's session with the coordinator, as the application knows it. Who keeps it alive is beside whoever
// works: a process of its own to the coordinator, which ends with the application's.
type guest struct {
	app  *app // that asks, with its own dice; it dies with the application
	dice *dice
	id   txn.SessionID
	asks time.Duration // for that TTL
	ttl  time.Duration // that was granted
	left chan struct{} // closed when the application has done its work
	ends fate

	mu     sync.Mutex       // guards all below
	signs  []time.Duration  // when calls that were answered had come to a node
	by     txn.Manager      // the last that answered
	told   txn.SessionState // what the last answer says; zero: none came
	wishes bool             // its end was asked for, whatever the answer
}

// fate is how an application leaves its session, unless it dies before.
type fate int

const (
	leavesClosed fate = iota // it is kept alive, and closed when the work is done
	leavesSilent             // it is kept alive as long, and left
	closesEarly              // it is closed while there is work
	stopsEarly               // it is kept alive no longer while there is work
	wavers                   // it is kept alive, sometimes too late
	fates
)

// lodge opens a session for an application; nil when that gets no answer.
func (w *World) lodge(a *app, d *dice) *guest {
	g := &guest{
		app:  &app{w: w, n: a.n, dice: d, over: a.over, steps: -1},
		dice: d, id: txn.NewSessionID(time.Now(), d.chance()), asks: d.between(time.Second, 4*time.Second),
		left: make(chan struct{}), ends: fate(d.n(int(fates))),
	}
	g.ttl = txn.GrantedTTL(g.asks)
	w.mu.Lock()
	w.guests = append(w.guests, g)
	w.mu.Unlock()
	if g.call(w.ctx, func(ctx context.Context, n *node.Node) (txn.ClientSession, error) {
		return n.OpenSession(ctx, txn.SessionOptions{ID: g.id, Name: "sim", TTL: g.asks})
	}) != nil {
		return nil
	}
	w.people.Go(g.stay)
	return g
}

// leave tells whoever keeps it alive that the work is done. It is nil-safe.
func (g *guest) leave() {
	if g != nil {
		close(g.left)
	}
}

// session is what a transaction is begun in; zero when it has ended, and for no guest.
func (g *guest) session() txn.SessionID {
	if g == nil {
		return txn.SessionID{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told != txn.SessionOpen {
		return txn.SessionID{}
	}
	return g.id
}

// stay keeps the session alive as long as its fate says.
func (g *guest) stay() {
	ctx, left, early := g.app.w.ctx, g.left, (<-chan time.Time)(nil)
	if g.ends == closesEarly || g.ends == stopsEarly {
		early, left = time.After(g.dice.between(0, 3*g.ttl)), nil
	}
	for {
		pause := g.dice.between(g.ttl/4, g.ttl/2)
		if g.ends == wavers && g.dice.one(3) {
			pause = g.dice.between(g.ttl*3/4, g.ttl*5/4)
		}
		select {
		case <-ctx.Done():
			return
		case <-g.app.over:
			return
		case <-early:
			g.end(ctx, g.ends == closesEarly)
			return
		case <-left:
			g.end(ctx, g.ends != leavesSilent)
			return
		case <-time.After(pause):
		}
		if g.dice.one(3) {
			g.begin(ctx)
		}
		if err := g.keepAlive(ctx); errors.Is(err, txn.ErrNotFound) {
			g.doubt(ctx)
			return
		}
	}
}

func (g *guest) keepAlive(ctx context.Context) error {
	return g.call(ctx, func(ctx context.Context, n *node.Node) (txn.ClientSession, error) { return n.KeepAlive(ctx, g.id) })
}

// doubt asks again about a session that is said to have ended: that must not change.
func (g *guest) doubt(ctx context.Context) {
	for range g.dice.n(3) {
		if restIn(ctx, g.dice.between(0, 3*time.Second)) {
			_ = g.keepAlive(ctx)
		}
	}
}

// end is the last that the application does about its session.
func (g *guest) end(ctx context.Context, closes bool) {
	if !closes {
		return
	}
	g.mu.Lock()
	g.wishes = true
	g.mu.Unlock()
	err := g.call(ctx, func(ctx context.Context, n *node.Node) (txn.ClientSession, error) {
		return txn.ClientSession{State: txn.SessionClosed}, n.CloseSession(ctx, g.id)
	})
	if err == nil {
		g.doubt(ctx)
	}
}

// begin begins a transaction that is left to others, and to the end of the session.
func (g *guest) begin(ctx context.Context) {
	id := g.session()
	if id.IsZero() {
		return
	}
	w := g.app.w
	o := txn.Options{ID: txn.NewID(time.Now(), g.dice.chance()), Mark: g.app.latest(), Name: "left", Timeout: g.dice.between(time.Second, 10*time.Second), Session: id}
	r := &record{id: o.ID, options: o, quiet: map[string]bool{}}
	w.mu.Lock()
	w.apps[o.ID] = r
	w.ids = append(w.ids, o.ID)
	w.mu.Unlock()
	_, err := g.app.Begin(ctx, o)
	w.note(o.ID, "application %d began it in session %v: %v", g.app.n, id, err)
	r.left.Store(true)
}

// sign is an answer about a session, and when the call that it answers had come to the node.
type sign struct {
	session txn.ClientSession
	at      time.Duration
	by      txn.Manager
}

// call makes a call about the session, and looks whether its answer fits those before.
func (g *guest) call(ctx context.Context, try func(context.Context, *node.Node) (txn.ClientSession, error)) error {
	w := g.app.w
	s, err := call(ctx, g.app, opOther, txn.ID{}, 0, func(ctx context.Context, m txn.Manager) (sign, error) {
		at := w.now()
		if w.plan.Bugs.Unheard && g.session() != (txn.SessionID{}) && g.dice.one(2) {
			return sign{txn.ClientSession{ID: g.id, State: txn.SessionOpen, TTL: txn.Duration(g.ttl)}, at, m}, nil
		}
		v, err := try(ctx, m.(*node.Node))
		return sign{v, at, m}, err
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil && s.session.State == txn.SessionClosed:
		g.told = txn.SessionClosed
	case err == nil:
		g.alive(s)
	case errors.Is(err, txn.ErrSessionExpired):
		g.expired()
	case errors.Is(err, txn.ErrNotFound) && g.told != txn.SessionClosed && !g.wishes && !g.mayBeForgotten():
		w.violate("session %v: nobody closed it, and the answer is: %v", g.id, err)
	}
	return err
}

// alive is called with the lock held.
func (g *guest) alive(s sign) {
	w := g.app.w
	switch {
	case g.told > txn.SessionOpen:
		w.violate("session %v was said to be %v, and then to be open", g.id, g.told)
	case s.session.ID != g.id || s.session.State != txn.SessionOpen || time.Duration(s.session.TTL) != g.ttl:
		w.violate("session %v, for %v: the answer is %+v", g.id, g.ttl, s.session)
	case g.by != nil && g.by != s.by:
		w.fire("session kept alive through a leader change")
	}
	g.signs = append(g.signs, s.at)
	g.by, g.told = s.by, txn.SessionOpen
}

// expired is called with the lock held.
func (g *guest) expired() {
	w := g.app.w
	if g.told == txn.SessionClosed {
		w.violate("session %v was said to be closed, and then to have expired", g.id)
	}
	if early := g.early(w.now()); early > 0 {
		w.violate("session %v, for %v: said to have expired, %v early", g.id, g.ttl, early)
	}
	g.told = txn.SessionExpired
}

// early is how much of its time is left to a session at a moment, by the signs of life that were answered. It is called with
// the lock held.
func (g *guest) early(at time.Duration) (left time.Duration) {
	for _, s := range g.signs {
		left = max(left, s+g.ttl-at)
	}
	return left
}
