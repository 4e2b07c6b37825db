package recovery

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/recovery/call"
	"github.com/txmgr/txmgr/timeout/hashbelt"
)

const (
	// beltLength is the number of steps of one turn of the hashbelt: participants that are
	// registered together are visited in so many groups, and not all at once.
	beltLength = 5
	// maxProbes is how many participants are probed at the same time. The others are
	// probed at their next visit.
	maxProbes = 16
)

// sweepTarget is a participant on the hashbelt.
type sweepTarget struct {
	name string
	ctx  context.Context // of its visits; ends when it is not registered any more
	end  context.CancelFunc
	busy atomic.Bool // a visit is under way
}

// runSweeps keeps every registered participant on a hashbelt. A participant that falls off
// is visited and reinserted at the front, so that each has one visit in every turn of the
// belt, without a goroutine or a timer of its own to wait for it.
func (r *Recovery) runSweeps() {
	var belt *hashbelt.Belt[string, *sweepTarget]
	belt, err := hashbelt.New(hashbelt.Config[string, *sweepTarget]{
		Containers: beltLength,
		Container:  hashbelt.NewMapSlice[string, *sweepTarget],
		Handler: hashbelt.Reinserting[string, *sweepTarget](func(name string, h *sweepTarget) (again bool) {
			if h.busy.Swap(true) {
				return belt.PutFor(name, h, 1) != nil // its visit takes long: the next begins soon after
			}
			r.life.wg.Go(func() {
				defer h.busy.Store(false)
				r.sweepParticipant(h)
			})
			return true
		}),
	})
	if err != nil {
		panic(fmt.Errorf("recovery: a belt of a constant size: %w", err))
	}
	ticker := time.NewTicker(max(r.cfg.SweepEvery/beltLength, 1))
	defer ticker.Stop()
	targets := make(map[string]*sweepTarget)
	for {
		r.syncParticipants(belt, targets)
		select {
		case <-ticker.C:
			belt.Rotate()
		case <-r.life.ctx.Done():
			return
		}
	}
}

// syncParticipants puts new participants on the belt, each at a random position,
// and removes those that are gone. The belt rotates on the same goroutine, so that
// no handler runs meanwhile.
func (r *Recovery) syncParticipants(belt *hashbelt.Belt[string, *sweepTarget], targets map[string]*sweepTarget) {
	registered := make(map[string]bool)
	for _, name := range r.log.Participants() {
		registered[name] = true
		if targets[name] != nil {
			continue
		}
		h := &sweepTarget{name: name}
		if belt.PutFor(name, h, 1+int(r.cfg.Rand()*beltLength)) == nil {
			h.ctx, h.end = context.WithCancel(r.life.ctx)
			targets[name] = h
		}
	}
	for name, h := range targets {
		if !registered[name] {
			h.end()
			belt.Remove(name)
			delete(targets, name)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLanesLocked(registered)
}

// sweepParticipant sweeps a participant, probes it, and prunes there. It runs on a
// goroutine of its own: it waits for workers, and so must not be one; and a participant
// that hangs delays no other visit.
func (r *Recovery) sweepParticipant(h *sweepTarget) {
	if r.log.RecoveryPaused() {
		return
	}
	begun := time.Now()
	if r.sweepOnce(h.ctx, h.name) {
		r.probe(h.ctx, h.name)
		r.pruneFor(h.ctx, h.name, r.cfg.SweepEvery-time.Since(begun))
	}
}

// probe checks whether a participant works, unless it is known from calls
// that it answers, or fails.
func (r *Recovery) probe(ctx context.Context, name string) {
	r.mu.Lock()
	l := r.laneLocked(name)
	known := l.health.probeErr == "" && !l.health.lastContact.IsZero() && time.Since(l.health.lastContact) < r.probeAfter()
	r.mu.Unlock()
	if known {
		return
	}
	select {
	case r.visits.probing <- struct{}{}:
		defer func() { <-r.visits.probing }()
	default:
		return
	}
	begun := time.Now()
	err := r.check(ctx, name)
	took := time.Since(begun)

	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	l = r.laneLocked(name)
	l.health.recordProbeLocked(took, err)
}

// probeAfter is the time without contact after which a participant is probed: less
// than three visits.
func (r *Recovery) probeAfter() time.Duration { return r.cfg.SweepEvery * 5 / 2 }

func (r *Recovery) check(ctx context.Context, name string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	defer call.RecoverPanic(&err)
	p, err := r.log.Participant(ctx, name)
	if err != nil {
		return fmt.Errorf("open participant: %w", call.TimeoutError(ctx, r.cfg.CallTimeout, err))
	}
	return call.TimeoutError(ctx, r.cfg.CallTimeout, p.Check(ctx))
}
