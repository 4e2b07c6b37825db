package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// silences is how many rotations of a belt a session lives through when nothing is heard of it: it is expired at most one of
// them, an eighth of its TTL, late.
const silences = 8

// expireAgain is the pause after a try to expire sessions that the log did not take.
const expireAgain = 100 * time.Millisecond

// pulse listens to the clients' sessions in one term of this node's: for each TTL that is granted there is a belt, a sign
// of life moves the session to the front of it, and what falls off has been silent for longer than its TTL and is expired by
// the log.
//
// It is never early. Rotations are not less than an eighth of the TTL apart: one that is late is not made up for. A new term
// begins with all sessions at the front, as if each had been heard at that moment.
type pulse struct {
	node   *Node
	term   uint64
	groups []*group // by TTL, each twice that of the one before
	wake   chan struct{}
	done   sync.WaitGroup // those who expire

	feeding sync.RWMutex
	fed     bool // guarded by feeding: all that were open at the beginning of the term are on the belts, which may rotate now
}

// group are the sessions of one TTL.
type group struct {
	ttl    time.Duration
	belt   *hashbelt.Belt[txn.SessionID, struct{}]
	rotate time.Time       // not before; zero while nothing is on the belt
	silent []txn.SessionID // what has just fallen off
}

// Expire implements [hashbelt.Handler].
func (g *group) Expire(_ *hashbelt.Belt[txn.SessionID, struct{}], gone hashbelt.Container[txn.SessionID, struct{}]) {
	for id := range gone.All() {
		g.silent = append(g.silent, id)
	}
}

func newPulse(n *Node, term uint64) (*pulse, error) {
	p := &pulse{node: n, term: term, wake: make(chan struct{}, 1)}
	for ttl := txn.MinSessionTTL; ; ttl *= 2 {
		g := &group{ttl: ttl}
		var err error
		g.belt, err = hashbelt.New(hashbelt.Config[txn.SessionID, struct{}]{
			Kind: hashbelt.Updating, Containers: silences + 1, Container: hashbelt.NewMap[txn.SessionID, struct{}], Handler: g,
		})
		if err != nil {
			return nil, fmt.Errorf("listening to sessions: %w", err)
		}
		p.groups = append(p.groups, g)
		if ttl >= txn.MaxSessionTTL {
			return p, nil
		}
	}
}

// group finds the belt of a TTL: the first that is not shorter, so that nobody is expired early whatever the log holds.
func (p *pulse) group(ttl time.Duration) *group {
	for _, g := range p.groups {
		if ttl <= g.ttl {
			return g
		}
	}
	return p.groups[len(p.groups)-1]
}

// admit listens to sessions from now on.
func (p *pulse) admit(opened []machine.Opened) {
	for _, o := range opened {
		if err := p.group(o.TTL).belt.Put(o.ID, struct{}{}); err != nil {
			p.node.logger.Error("cannot listen to a session: it will not expire in this term", "session", o.ID, "error", err)
		}
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// heard notes a sign of life of a session that the log says is open. It is false when that comes too late: the session is
// being expired.
func (p *pulse) heard(id txn.SessionID, ttl time.Duration) bool {
	p.feeding.RLock() // no belt begins to rotate meanwhile
	defer p.feeding.RUnlock()
	if _, ok := p.group(ttl).belt.Get(id); ok {
		return true
	}
	if !p.fed { // its turn has not come yet
		p.admit([]machine.Opened{{ID: id, TTL: ttl}})
	}
	return !p.fed
}

// forget listens to sessions no longer. It is told by the log, whoever had them closed and whether he got an answer: what
// stayed on a belt would end the next session of that id.
func (p *pulse) forget(closed []machine.Opened) {
	for _, c := range closed {
		p.group(c.TTL).belt.Remove(c.ID)
	}
}

// run feeds the belts and rotates them, until ctx ends. It goes in steps, so that the log goes on.
func (p *pulse) run(ctx context.Context) {
	defer p.done.Wait()
	const step = 10_000
	for from, first := uint32(0), true; first || from != 0; first = false {
		if ctx.Err() != nil {
			return
		}
		var open []machine.Session
		p.node.fsm.View(func(m *machine.Machine) {
			open, from = m.Sessions(from, step, func(s *machine.Session) bool { return s.State == txn.SessionOpen })
		})
		for i := range open {
			// Not Put: who was heard meanwhile keeps his place.
			_ = p.group(open[i].TTL).belt.Add(open[i].ID, struct{}{})
		}
	}
	p.feeding.Lock()
	p.fed = true
	p.feeding.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
			return
		}
		timer.Reset(p.turn(ctx))
	}
}

// turn rotates the belts whose time has come, and says how long to sleep.
func (p *pulse) turn(ctx context.Context) time.Duration {
	sleep := time.Hour // only a new session ends this sleep
	for _, g := range p.groups {
		if g.belt.Len() == 0 {
			g.rotate = time.Time{}
			continue
		}
		every := g.ttl / silences
		switch now := time.Now(); {
		case g.rotate.IsZero():
			g.rotate = now.Add(every)
		case !now.Before(g.rotate):
			g.belt.Rotate()
			// From the moment after: who was heard in between stands behind this rotation.
			g.rotate = time.Now().Add(every)
			for ids := range slices.Chunk(g.silent, machine.MaxExpire) {
				p.done.Go(func() { p.expire(ctx, ids) })
			}
			g.silent = nil
		}
		sleep = min(sleep, time.Until(g.rotate))
	}
	return max(sleep, 0)
}

// expire makes the log end sessions. It does not give up while this node leads: they are on no belt any more.
func (p *pulse) expire(ctx context.Context, ids []txn.SessionID) {
	for ctx.Err() == nil {
		res, err := p.node.batcher.proposeIn(ctx, p.term, machine.ExpireSessions{IDs: ids}, nil)
		if err == nil {
			if res.Code != machine.OK {
				p.node.logger.Error("the log refused to expire sessions", "sessions", len(ids), "code", res.Code)
				return
			}
			p.node.logExpired(ids)
			return
		}
		timer := time.NewTimer(expireAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}
