package purgatory

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"time"
	"weak"
)

// MaxKeys is how many keys a request may watch.
const MaxKeys = 128

// shards is how many locks the watcher lists share. One is held for a map access or two, for a
// stride of a walk, and occasionally for a pass over the keys of its shard.
const shards = 64

// Purgatory holds requests that wait for a condition or a deadline, and wakes those that watch a
// key. All its methods may be called by any goroutine, also from within the methods of a [Request].
// [Start] makes one; the zero value is not usable.
type Purgatory[K comparable] struct {
	clock       *clock
	seed        maphash.Seed
	shards      [shards]shard[K]
	onCollected func(*shard[K]) // one value for all cleanups: a new one for each request would be as large as a watcher
}

// Start returns an empty purgatory. It runs a goroutine, which sleeps until a deadline comes, until [Purgatory.Stop]. It
// fails with [ErrTick].
func Start[K comparable](c Config) (*Purgatory[K], error) {
	k, err := startClock(c)
	if err != nil {
		return nil, err
	}
	return &Purgatory[K]{clock: k, seed: maphash.MakeSeed(), onCollected: (*shard[K]).collected}, nil
}

// Park tries q, and if its condition does not hold, keeps it until a check of one of its keys finds
// that it does, or until timeout has passed; then q completes with Expired, never before the
// timeout, and up to a tick of [Config] later. If timeout is not positive, q is tried once, and has
// expired if its condition does not hold. A timeout that the clock cannot represent lasts as long
// as the clock.
//
// The condition may become true at any time: q is tried again after its keys are watched, so a
// check of a key after Park has begun is not missed. A key that is named twice is watched once.
//
// If q was completed at once the handle is nil. If there is an error, [ErrNoRequest], [ErrNoKeys],
// [ErrTooManyKeys], [ErrKey] or [ErrStopped], or if a TryComplete panics in Park, q is not parked
// and Complete is not called. As with a map, a key of an interface type whose value cannot be
// compared panics. Parking the same q twice makes two independent requests.
func (p *Purgatory[K]) Park(q Request, timeout time.Duration, keys ...K) (*Parked, error) {
	if q == nil {
		return nil, ErrNoRequest
	}
	if err := check(keys); err != nil {
		return nil, err
	}
	if p.clock.stopped.Load() {
		return nil, ErrStopped
	}
	switch {
	case q.TryComplete():
		q.Complete(Satisfied)
		return nil, nil
	case timeout <= 0:
		q.Complete(Expired)
		return nil, nil
	}
	r := &Parked{clock: p.clock, request: q}
	r.state.Store(trying)
	if !p.clock.add(r, timeout) {
		r.drop()
		return nil, ErrStopped
	}
	for i, key := range keys {
		if !slices.Contains(keys[:i], key) {
			p.watch(r, key)
		}
	}
	r.run(true)
	return r, nil
}

func check[K comparable](keys []K) error {
	switch n := len(keys); {
	case n == 0:
		return ErrNoKeys
	case n > MaxKeys:
		return fmt.Errorf("%w: %d, at most %d", ErrTooManyKeys, n, MaxKeys)
	}
	for _, key := range keys {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("%w: %v", ErrKey, key)
		}
	}
	return nil
}

func (p *Purgatory[K]) watch(r *Parked, key K) {
	s := p.shard(key)
	s.watch(key, weak.Make(r))
	runtime.AddCleanup(r, p.onCollected, s)
}

func (p *Purgatory[K]) shard(key K) *shard[K] {
	return &p.shards[maphash.Comparable(p.seed, key)%shards]
}

// Check tries every request that watches key, and returns how many it has completed. Call it after
// any change that could make a condition hold. When it returns, every request that was parked
// before it began has been tried since, or is being tried by a goroutine that will try it again.
// The list of the key is clean then, also if nothing is parked any more: requests that were
// completed when Check met them, or that it has completed, have no watcher in it.
//
// If requests panic, the others are tried, and then the first panic goes on. A TryComplete that has
// panicked counts as false.
func (p *Purgatory[K]) Check(key K) (completed int) {
	s := p.shard(key)
	if s.entries.Load() == 0 {
		return 0 // what is watched from now on is tried again by Park
	}
	w := walk[K]{shard: s, key: key, more: true}
	each(w.next, func(r *Parked) {
		if r.tryComplete() {
			completed++
		}
	})
	return completed
}

// CheckAll tries every request, for a change that may concern all of them. It promises what Check
// promises, for all lists.
func (p *Purgatory[K]) CheckAll() (completed int) {
	var w walk[K]
	rest := p.shards[:]
	next := func() (*Parked, bool) {
		for {
			if r, ok := w.next(); ok || len(rest) == 0 {
				return r, ok
			}
			if s := &rest[0]; s.entries.Load() > 0 {
				w = walk[K]{shard: s, keys: s.keys()}
				w.nextList()
			}
			rest = rest[1:]
		}
	}
	each(next, func(r *Parked) {
		if r.tryComplete() {
			completed++
		}
	})
	return completed
}

// Len returns how many requests are parked and not completed.
func (p *Purgatory[K]) Len() int { return int(p.clock.parked.Load()) }

// Watchers returns how many entries the watcher lists have: one for each key of each parked
// request, and those of completed requests that were not removed yet.
func (p *Purgatory[K]) Watchers() (n int) {
	for i := range p.shards {
		n += int(p.shards[i].entries.Load())
	}
	return n
}

// Stop completes every parked request with Stopped and ends the goroutine of the clock. Afterwards
// Park refuses. A request that another goroutine is trying, or completing, at that moment is
// completed by that goroutine; all others are completed when Stop returns. A second Stop does
// nothing.
func (p *Purgatory[K]) Stop() { p.clock.stop() }
