package ticks

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn/machine"
)

// Scheduler is the timeout thread. It sleeps until the earliest deadline group is due and then
// requests a log entry, which carries the tick that expires the group, unless other commands carry
// it anyway. While transactions are unfinished and nothing is written it requests one entry per
// checkpoint interval, so that a restart loses no more than that; while outcomes are retained it
// does the same, so that their retention ends without calls of clients. With neither it sleeps.
type Scheduler struct {
	clock      *Clock
	queue      queue
	view       func(func(*machine.Machine))
	checkpoint time.Duration

	wakeAt atomic.Uint64 // the tick for which it sleeps
	wake   chan struct{} // capacity 1
}

// queue is the queue of proposals, which stamps each entry with the tick.
type queue interface {
	RequestTick()                  // asks for an entry soon, which may be empty
	SinceLastEntry() time.Duration // since this node last proposed one
}

// NewScheduler makes a timeout thread; start it with [Scheduler.Run]. It asks for at least one
// entry per checkpoint interval while transactions are unfinished.
func NewScheduler(c *Clock, q queue, view func(func(*machine.Machine)), checkpoint time.Duration) *Scheduler {
	return &Scheduler{clock: c, queue: q, view: view, checkpoint: checkpoint, wake: make(chan struct{}, 1)}
}

const noDeadline = math.MaxUint64

// NextDue returns the earliest expiry of a transaction that its deadline ends, or now when
// transactions are due that no entry has expired, for example those of a session that has ended;
// pending is false when nothing is unfinished and no outcome is retained. A delegated transaction
// is not ended by its deadline, but waits for it: a restart must not lose that either.
func NextDue(m *machine.Machine) (next survival.Tick, pending bool) {
	if m.Due() {
		return m.Tick(), true
	}
	if next, ok := m.Next(); ok {
		return next, true
	}
	c := m.Counts()
	_, kept := m.OldestRetained()
	return noDeadline - 1, kept || c.Completing+c.Delegated > 0
}

// Observe is called after every applied entry with what is due next. It is cheap: it wakes
// the thread only when that would oversleep.
func (k *Scheduler) Observe(next survival.Tick, pending bool) {
	if pending && uint64(next) < k.wakeAt.Load() {
		k.signal()
	}
}

func (k *Scheduler) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run returns when stop is closed.
func (k *Scheduler) Run(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-k.wake:
		case <-stop:
			return
		}
		timer.Reset(k.step())
	}
}

// step requests an entry when one is due, and returns how long to sleep.
func (k *Scheduler) step() time.Duration {
	// Between this store and the next one no wake-up is lost: an entry that is
	// applied meanwhile sees noDeadline and signals.
	k.wakeAt.Store(noDeadline)
	var next survival.Tick
	var pending bool
	k.view(func(m *machine.Machine) { next, pending = NextDue(m) })
	if !pending {
		return time.Hour // only a new transaction ends this sleep
	}
	k.wakeAt.Store(uint64(next))
	untilDue := k.clock.Remaining(next)
	untilCheckpoint := k.checkpoint - k.queue.SinceLastEntry()
	if untilDue == 0 || untilCheckpoint <= 0 {
		k.queue.RequestTick()
	}
	switch {
	case untilDue == 0:
		// The entry is in flight; observe wakes the thread when it has been
		// applied and more is due. This is for an entry that failed.
		k.wakeAt.Store(noDeadline)
		return time.Second
	case untilCheckpoint <= 0:
		return min(untilDue, k.checkpoint)
	}
	return min(untilDue, untilCheckpoint)
}
