package recovery

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/hashbelt"
)

const (
	// beltLength is in how many steps the belt turns: participants that are registered
	// together are visited in so many groups, and not all at once.
	beltLength = 5
	// probesAtOnce is how many participants are probed at the same time. For others
	// there is the next visit.
	probesAtOnce = 16
)

// host is a participant on the belt.
type host struct {
	name    string
	ctx     context.Context // of its visits; ends when it is registered no more
	end     context.CancelFunc
	visited atomic.Bool // a visit is under way
}

// makeRounds has every registered participant on a belt. Who falls off is visited,
// and goes back to the front, so that everybody has a visit in every turn of the belt
// and nobody has a goroutine or a timer to wait for it.
func (r *Recovery) makeRounds() {
	var belt *hashbelt.Belt[string, *host]
	belt, err := hashbelt.New(hashbelt.Config[string, *host]{
		Containers: beltLength,
		Container:  hashbelt.NewMapSlice[string, *host],
		Handler: hashbelt.Reinserting[string, *host](func(name string, h *host) (again bool) {
			if h.visited.Swap(true) {
				return belt.PutFor(name, h, 1) != nil // its visit takes long: the next begins soon after
			}
			r.wg.Go(func() {
				defer h.visited.Store(false)
				r.visit(h)
			})
			return true
		}),
	})
	if err != nil {
		panic(fmt.Errorf("recovery: a belt of a constant size: %w", err))
	}
	ticker := time.NewTicker(max(r.cfg.SweepEvery/beltLength, 1))
	defer ticker.Stop()
	hosts := make(map[string]*host)
	for {
		r.muster(belt, hosts)
		select {
		case <-ticker.C:
			belt.Rotate()
		case <-r.ctx.Done():
			return
		}
	}
}

// muster puts participants that are new on the belt, each where chance will have it,
// and takes those off that are gone. The belt rotates on the same goroutine, so that
// nobody is with its handler meanwhile.
func (r *Recovery) muster(belt *hashbelt.Belt[string, *host], hosts map[string]*host) {
	registered := make(map[string]bool)
	for _, name := range r.log.Participants() {
		registered[name] = true
		if hosts[name] != nil {
			continue
		}
		h := &host{name: name}
		if belt.PutFor(name, h, 1+int(r.cfg.Rand()*beltLength)) == nil {
			h.ctx, h.end = context.WithCancel(r.ctx)
			hosts[name] = h
		}
	}
	for name, h := range hosts {
		if !registered[name] {
			h.end()
			belt.Remove(name)
			delete(hosts, name)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLanesLocked(registered)
}

// visit sweeps a participant, probes it, and tidies up there. On a goroutine of its
// own: it waits for workers, and so must not be one; and who hangs keeps nobody else
// from being visited.
func (r *Recovery) visit(h *host) {
	if r.log.Held() {
		return
	}
	begun := time.Now()
	if r.sweepOnce(h.ctx, h.name) {
		r.probe(h.ctx, h.name)
		r.tidyFor(h.ctx, h.name, r.cfg.SweepEvery-time.Since(begun))
	}
}

// probe asks a participant whether it can take part, unless it is known from calls
// that it answers, or fails.
func (r *Recovery) probe(ctx context.Context, name string) {
	r.mu.Lock()
	l := r.laneLocked(name)
	known := l.unfit == "" && !l.heard.IsZero() && time.Since(l.heard) < r.silence()
	r.mu.Unlock()
	if known {
		return
	}
	select {
	case r.probing <- struct{}{}:
		defer func() { <-r.probing }()
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
	l.unfit, l.took = "", took
	if err != nil {
		l.unfit = plain("check: " + err.Error())
	}
	l.hearLocked()
}

// silence is how long nothing was heard of a participant before it is probed: less
// than three visits.
func (r *Recovery) silence() time.Duration { return r.cfg.SweepEvery * 5 / 2 }

func (r *Recovery) check(ctx context.Context, name string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	defer unpanic(&err)
	p, err := r.log.Participant(ctx, name)
	if err != nil {
		return fmt.Errorf("open participant: %w", overdue(ctx, r.cfg.CallTimeout, err))
	}
	return overdue(ctx, r.cfg.CallTimeout, p.Check(ctx))
}
