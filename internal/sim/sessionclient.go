package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// sessionClient is an application's session with the coordinator, as the application knows it. Its
// keep-alives are sent by a goroutine beside the work: to the coordinator that is another process,
// which ends with the application.
type sessionClient struct {
	app          *app // the caller, with its own rng; it crashes with the application
	rng          *rng
	id           txn.SessionID
	requestedTTL time.Duration // the TTL that was requested
	ttl          time.Duration // the TTL that was granted
	workDone     chan struct{} // closed when the application has done its work
	exit         exitKind

	mu             sync.Mutex       // guards all below
	keepAlives     []time.Duration  // when calls that were answered had arrived at a node
	by             txn.Manager      // the last node that answered
	reported       txn.SessionState // the state in the last answer; zero: none was received
	closeRequested bool             // a close was requested, whatever the answer
}

// exitKind is how an application ends its session, unless it crashes before.
type exitKind int

const (
	exitClosed      exitKind = iota // kept alive, and closed when the work is done
	exitSilent                      // kept alive as long, and not closed
	exitClosedEarly                 // closed during the work
	exitSilentEarly                 // no longer kept alive during the work
	exitIrregular                   // kept alive, sometimes too late
	exitKinds
)

// openSession opens a session for an application; nil if there is no answer.
func (w *World) openSession(a *app, d *rng) *sessionClient {
	g := &sessionClient{
		app: &app{w: w, n: a.n, rng: d, dead: a.dead, steps: -1},
		rng: d, id: txn.NewSessionID(time.Now(), d.entropy()), requestedTTL: d.between(time.Second, 4*time.Second),
		workDone: make(chan struct{}), exit: exitKind(d.n(int(exitKinds))),
	}
	g.ttl = txn.GrantedTTL(g.requestedTTL)
	w.mu.Lock()
	w.sessionClients = append(w.sessionClients, g)
	w.mu.Unlock()
	if g.call(w.ctx, func(ctx context.Context, n *node.Node) (admin.ClientSession, error) {
		return n.OpenSession(ctx, txn.SessionOptions{ID: g.id, Name: "sim", TTL: g.requestedTTL})
	}) != nil {
		return nil
	}
	w.callers.Go(g.run)
	return g
}

// finish signals that the work is done. It is nil-safe.
func (g *sessionClient) finish() {
	if g != nil {
		close(g.workDone)
	}
}

// sessionID is the session in which to begin a transaction; zero if it has ended, and for a nil
// receiver.
func (g *sessionClient) sessionID() txn.SessionID {
	if g == nil {
		return txn.SessionID{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reported != txn.SessionOpen {
		return txn.SessionID{}
	}
	return g.id
}

// run keeps the session alive as its exitKind says.
func (g *sessionClient) run() {
	ctx, left, early := g.app.w.ctx, g.workDone, (<-chan time.Time)(nil)
	if g.exit == exitClosedEarly || g.exit == exitSilentEarly {
		early, left = time.After(g.rng.between(0, 3*g.ttl)), nil
	}
	for {
		pause := g.rng.between(g.ttl/4, g.ttl/2)
		if g.exit == exitIrregular && g.rng.oneIn(3) {
			pause = g.rng.between(g.ttl*3/4, g.ttl*5/4)
		}
		select {
		case <-ctx.Done():
			return
		case <-g.app.dead:
			return
		case <-early:
			g.end(ctx, g.exit == exitClosedEarly)
			return
		case <-left:
			g.end(ctx, g.exit != exitSilent)
			return
		case <-time.After(pause):
		}
		if g.rng.oneIn(3) {
			g.begin(ctx)
		}
		if err := g.keepAlive(ctx); errors.Is(err, txn.ErrNotFound) {
			g.recheckEnded(ctx)
			return
		}
	}
}

func (g *sessionClient) keepAlive(ctx context.Context) error {
	return g.call(ctx, func(ctx context.Context, n *node.Node) (admin.ClientSession, error) { return n.KeepAlive(ctx, g.id) })
}

// recheckEnded repeats calls about a session that is reported as ended: that must not change.
func (g *sessionClient) recheckEnded(ctx context.Context) {
	for range g.rng.n(3) {
		if sleepCtx(ctx, g.rng.between(0, 3*time.Second)) {
			_ = g.keepAlive(ctx)
		}
	}
}

// end is the application's last call about its session.
func (g *sessionClient) end(ctx context.Context, closes bool) {
	if !closes {
		return
	}
	g.mu.Lock()
	g.closeRequested = true
	g.mu.Unlock()
	err := g.call(ctx, func(ctx context.Context, n *node.Node) (admin.ClientSession, error) {
		return admin.ClientSession{State: txn.SessionClosed}, n.CloseSession(ctx, g.id)
	})
	if err == nil {
		g.recheckEnded(ctx)
	}
}

// begin begins a transaction that is left to other callers, and to the end of the session.
func (g *sessionClient) begin(ctx context.Context) {
	id := g.sessionID()
	if id.IsZero() {
		return
	}
	w := g.app.w
	o := txn.Options{ID: txn.NewID(time.Now(), g.rng.entropy()), Mark: g.app.latestMark(), Name: "left", Timeout: g.rng.between(time.Second, 10*time.Second), Session: id}
	r := &txRecord{id: o.ID, options: o, readOnly: map[string]bool{}}
	w.mu.Lock()
	w.apps[o.ID] = r
	w.ids = append(w.ids, o.ID)
	w.mu.Unlock()
	_, err := g.app.Begin(ctx, o)
	w.noteTx(o.ID, "application %d began it in session %v: %v", g.app.n, id, err)
	r.finished.Store(true)
}

// keepAliveReply is an answer about a session, and when its call had arrived at the node.
type keepAliveReply struct {
	session admin.ClientSession
	at      time.Duration
	by      txn.Manager
}

// call makes a call about the session, and checks its answer against the earlier ones.
func (g *sessionClient) call(ctx context.Context, try func(context.Context, *node.Node) (admin.ClientSession, error)) error {
	w := g.app.w
	s, err := call(ctx, g.app, opOther, txn.ID{}, 0, func(ctx context.Context, m txn.Manager) (keepAliveReply, error) {
		at := w.now()
		if w.plan.Bugs.DropKeepAlives && g.sessionID() != (txn.SessionID{}) && g.rng.oneIn(2) {
			return keepAliveReply{admin.ClientSession{ID: g.id, State: txn.SessionOpen, TTL: txn.Duration(g.ttl)}, at, m}, nil
		}
		v, err := try(ctx, m.(*node.Node))
		return keepAliveReply{v, at, m}, err
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil && s.session.State == txn.SessionClosed:
		g.reported = txn.SessionClosed
	case err == nil:
		g.onAlive(s)
	case errors.Is(err, txn.ErrSessionExpired):
		g.onExpired()
	case errors.Is(err, txn.ErrNotFound) && g.reported != txn.SessionClosed && !g.closeRequested && !g.mayBeForgotten():
		w.violate("session %v: it was not closed, and the answer is: %v", g.id, err)
	}
	return err
}

// onAlive is called with the lock held.
func (g *sessionClient) onAlive(s keepAliveReply) {
	w := g.app.w
	switch {
	case g.reported > txn.SessionOpen:
		w.violate("session %v was said to be %v, and then to be open", g.id, g.reported)
	case s.session.ID != g.id || s.session.State != txn.SessionOpen || time.Duration(s.session.TTL) != g.ttl:
		w.violate("session %v, for %v: the answer is %+v", g.id, g.ttl, s.session)
	case g.by != nil && g.by != s.by:
		w.countFault("session kept alive through a leader change")
	}
	g.keepAlives = append(g.keepAlives, s.at)
	g.by, g.reported = s.by, txn.SessionOpen
}

// onExpired is called with the lock held.
func (g *sessionClient) onExpired() {
	w := g.app.w
	if g.reported == txn.SessionClosed {
		w.violate("session %v was said to be closed, and then to have expired", g.id)
	}
	if early := g.remaining(w.now()); early > 0 {
		w.violate("session %v, for %v: said to have expired, %v early", g.id, g.ttl, early)
	}
	g.reported = txn.SessionExpired
}

// remaining is the time that a session has left at a moment, by the keep-alives that were answered.
// It is called with the lock held.
func (g *sessionClient) remaining(at time.Duration) (left time.Duration) {
	for _, s := range g.keepAlives {
		left = max(left, s+g.ttl-at)
	}
	return left
}
