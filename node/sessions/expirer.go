package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// slotsPerTTL is how many rotations of a belt a session survives without a keep-alive: it expires
// at most one of them, an eighth of its TTL, late.
const slotsPerTTL = 8

// expireRetryPause is the pause after the log did not accept the expiry of sessions.
const expireRetryPause = 100 * time.Millisecond

// Expirer expires client sessions in one term of this node. There is one belt for each
// granted TTL: a keep-alive moves the session to the front of its belt, and a session that falls
// off had no keep-alive for longer than its TTL and is expired by the log.
//
// It is never early. Rotations are at least an eighth of the TTL apart, and late ones are not made
// up for. A new term begins with all sessions at the front, as if each had been renewed at that
// moment.
type Expirer struct {
	log    Log
	view   func(func(*machine.Machine))
	term   uint64
	logger *slog.Logger
	groups []*ttlGroup // by TTL, each twice that of the one before
	wake   chan struct{}
	done   sync.WaitGroup // the goroutines that expire sessions

	loadMu sync.RWMutex
	loaded bool // guarded by loadMu: all sessions that were open at the beginning of the term are on the belts, which may rotate now
}

// ttlGroup holds the sessions of one TTL.
type ttlGroup struct {
	ttl          time.Duration
	belt         *hashbelt.Belt[txn.SessionID, struct{}]
	nextRotation time.Time       // not before; zero while the belt is empty
	expired      []txn.SessionID // the sessions that have just fallen off
}

// Expire implements [hashbelt.Handler].
func (g *ttlGroup) Expire(_ *hashbelt.Belt[txn.SessionID, struct{}], gone hashbelt.Container[txn.SessionID, struct{}]) {
	for id := range gone.All() {
		g.expired = append(g.expired, id)
	}
}

// Log is where sessions are expired: the queue of proposals.
type Log interface {
	ProposeInTerm(ctx context.Context, term uint64, c machine.Command, onDone func()) (machine.Result, error)
}

// NewExpirer makes an Expirer for one term; see [Expirer.Run].
func NewExpirer(l Log, view func(func(*machine.Machine)), term uint64, logger *slog.Logger) (*Expirer, error) {
	p := &Expirer{log: l, view: view, term: term, logger: logger, wake: make(chan struct{}, 1)}
	for ttl := txn.MinSessionTTL; ; ttl *= 2 {
		g := &ttlGroup{ttl: ttl}
		var err error
		g.belt, err = hashbelt.New(hashbelt.Config[txn.SessionID, struct{}]{
			Kind: hashbelt.Updating, Containers: slotsPerTTL + 1, Container: hashbelt.NewMap[txn.SessionID, struct{}], Handler: g,
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

// groupFor returns the group of a TTL: the first that is not shorter, so that no session expires
// early whatever TTL the log holds.
func (p *Expirer) groupFor(ttl time.Duration) *ttlGroup {
	for _, g := range p.groups {
		if ttl <= g.ttl {
			return g
		}
	}
	return p.groups[len(p.groups)-1]
}

// Add puts sessions on their belts.
func (p *Expirer) Add(opened []machine.SessionLease) {
	for _, o := range opened {
		if err := p.groupFor(o.TTL).belt.Put(o.ID, struct{}{}); err != nil {
			p.logger.Error("cannot listen to a session: it will not expire in this term", "session", o.ID, "error", err)
		}
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Renew moves a session that the log reports as open to the front of its belt. It is false when
// that is too late: the session is being expired.
func (p *Expirer) Renew(id txn.SessionID, ttl time.Duration) bool {
	p.loadMu.RLock() // no belt begins to rotate meanwhile
	defer p.loadMu.RUnlock()
	if _, ok := p.groupFor(ttl).belt.Get(id); ok {
		return true
	}
	if !p.loaded { // Run has not reached it yet
		p.Add([]machine.SessionLease{{ID: id, TTL: ttl}})
	}
	return !p.loaded
}

// Drop removes sessions from their belts. It is called for every session that the log closes, no
// matter who closed it and whether the caller got an answer: one that stayed on a belt would end
// the next session of that id.
func (p *Expirer) Drop(closed []machine.SessionLease) {
	for _, c := range closed {
		p.groupFor(c.TTL).belt.Remove(c.ID)
	}
}

// Run fills the belts and rotates them, until ctx ends. It fills them in steps, so that the log
// goes on.
func (p *Expirer) Run(ctx context.Context) {
	defer p.done.Wait()
	const step = 10_000
	for from, first := uint32(0), true; first || from != 0; first = false {
		if ctx.Err() != nil {
			return
		}
		var open []machine.Session
		p.view(func(m *machine.Machine) {
			open, from = m.Sessions(from, step, func(s *machine.Session) bool { return s.State == txn.SessionOpen })
		})
		for i := range open {
			// Not Put: a session renewed meanwhile keeps its place.
			_ = p.groupFor(open[i].TTL).belt.Add(open[i].ID, struct{}{})
		}
	}
	p.loadMu.Lock()
	p.loaded = true
	p.loadMu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
			return
		}
		timer.Reset(p.rotateDue(ctx))
	}
}

// rotateDue rotates the belts that are due, and returns how long to sleep.
func (p *Expirer) rotateDue(ctx context.Context) time.Duration {
	sleep := time.Hour // only a new session ends this sleep
	for _, g := range p.groups {
		if g.belt.Len() == 0 {
			g.nextRotation = time.Time{}
			continue
		}
		every := g.ttl / slotsPerTTL
		switch now := time.Now(); {
		case g.nextRotation.IsZero():
			g.nextRotation = now.Add(every)
		case !now.Before(g.nextRotation):
			g.belt.Rotate()
			// From the moment after: a session renewed in between is not affected by this rotation.
			g.nextRotation = time.Now().Add(every)
			for ids := range slices.Chunk(g.expired, machine.MaxExpire) {
				p.done.Go(func() { p.expire(ctx, ids) })
			}
			g.expired = nil
		}
		sleep = min(sleep, time.Until(g.nextRotation))
	}
	return max(sleep, 0)
}

// expire has the log end sessions. It retries as long as this node leads: they are on no belt any
// more.
func (p *Expirer) expire(ctx context.Context, ids []txn.SessionID) {
	for ctx.Err() == nil {
		res, err := p.log.ProposeInTerm(ctx, p.term, machine.ExpireSessions{IDs: ids}, nil)
		if err == nil {
			if res.Code != machine.OK {
				p.logger.Error("the log refused to expire sessions", "sessions", len(ids), "code", res.Code)
				return
			}
			p.logger.Info("sessions expired: what was undecided in them is rolled back", "count", len(ids), "session", ids[0].String(), "cause", txn.CauseSessionExpired.String())
			return
		}
		timer := time.NewTimer(expireRetryPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}
