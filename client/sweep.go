package client

import (
	"context"
	"slices"
	"time"
)

// sweepInterval is how often a pipeline looks for calls whose time is over. One look at all of them
// costs less than a timer for each.
const sweepInterval = 10 * time.Millisecond

// sweepLocked has the calls looked at. The caller holds mu.
func (p *pipeline) sweepLocked() {
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(sweepInterval, p.sweep)
	}
}

// sweep ends the calls whose time is over.
func (p *pipeline) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
	now := time.Now()
	for seq, k := range p.pending {
		if p.expireLocked(k, now) {
			delete(p.pending, seq)
		}
	}
	p.queue = slices.DeleteFunc(p.queue, func(k *call) bool { return p.expireLocked(k, now) })
}

// expireLocked ends a call if its time is over, and reports whether it is.
func (p *pipeline) expireLocked(k *call, now time.Time) bool {
	switch {
	case k.expires.IsZero():
		return false
	case now.Before(k.expires):
		p.sweepLocked()
		return false
	}
	p.finishLocked(k, nil, &transportError{base: p.c.cfg.Address, sent: k.phase == sent, err: context.DeadlineExceeded})
	return true
}
