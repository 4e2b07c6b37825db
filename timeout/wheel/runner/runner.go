package runner

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/wheel"
)

// DefaultTick is fine enough for users and networks.
const DefaultTick = time.Millisecond

// Config configures a [Runner]. The zero Config lacks Handle.
type Config[T any] struct {
	// Tick is the length of a tick: a task is up to this much late. Defaults to [DefaultTick].
	Tick time.Duration

	// Size is the number of buckets in a block of the wheel, as [wheel.New] takes it. Defaults to [wheel.DefaultSize].
	Size int

	// Handle is called with every task that is due, once, on the runner's goroutine. The package doc says what it may do.
	// It has no default.
	Handle func(*wheel.Task[T])

	// Panicked is called after Handle has panicked, with the task, the value, and the stack. It runs on the runner's
	// goroutine; if it panics itself, the program ends. Defaults to nil: a panic of Handle ends the program.
	Panicked func(t *wheel.Task[T], value any, stack []byte)
}

// noDeadline is a tick that is never slept for: it stands for no deadline at all.
const noDeadline = math.MaxUint64

// Runner is a wheel with a goroutine that advances it. [Start] makes one; the zero Runner is not
// usable. All its methods may be called by several goroutines at a time, and by the function that
// it passes tasks to.
//
// The runner reads and writes a task from Add until the task is passed on or Cancel has reported
// true. Between these no other code may access it, except its Value.
type Runner[T any] struct {
	unit     time.Duration
	origin   time.Time // of tick 0
	handle   func(*wheel.Task[T])
	panicked func(*wheel.Task[T], any, []byte)

	wakeCh chan struct{} // holds one: an earlier task was added while the goroutine slept
	stop   chan struct{} // closed by Stop
	done   chan struct{} // closed by the goroutine

	mu         sync.Mutex
	wheel      *wheel.Wheel[T] // guarded by mu
	sleepUntil timeout.Tick    // guarded by mu: the goroutine sleeps until then; 0: it is awake
	wakeups    uint64          // guarded by mu
	stopped    bool            // guarded by mu
}

// Start starts a runner at tick 0. It fails with [ErrHandle] or [ErrTick]. The caller has to stop
// it, or its goroutine stays.
func Start[T any](c Config[T]) (*Runner[T], error) {
	switch {
	case c.Handle == nil:
		return nil, ErrHandle
	case c.Tick < 0:
		return nil, fmt.Errorf("%w: %v", ErrTick, c.Tick)
	case c.Tick == 0:
		c.Tick = DefaultTick
	}
	r := &Runner[T]{
		unit:     c.Tick,
		origin:   time.Now(),
		handle:   c.Handle,
		panicked: c.Panicked,
		wakeCh:   make(chan struct{}, 1),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
		wheel:    wheel.New[T](0, c.Size),
	}
	go r.run()
	return r, nil
}

// Add makes a task wait for a time, after which it is passed on: at once if after is zero or
// negative. It reports false, and does nothing, if t is nil or waits already, or if the runner was
// stopped.
func (r *Runner[T]) Add(t *wheel.Task[T], after time.Duration) bool {
	r.mu.Lock()
	elapsed := time.Since(r.origin)
	// The current tick is reached already, so that the wheel places the task by the present time,
	// not by that of the last Advance.
	r.wheel.Advance(r.tick(elapsed))
	added := !r.stopped && r.wheel.Add(t, r.end(elapsed, after))
	next, _ := r.wheel.Next()
	wake := added && next < r.sleepUntil
	if wake {
		r.sleepUntil = next
	}
	r.mu.Unlock()
	if wake {
		select {
		case r.wakeCh <- struct{}{}:
		default:
		}
	}
	return added
}

// Cancel takes a task back. It reports true if the task waited here, and will not be passed on. It
// reports false, and does nothing, if it was passed on or cancelled before, is being passed on now,
// or was never added.
func (r *Runner[T]) Cancel(t *wheel.Task[T]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wheel.Cancel(t)
}

// Len returns how many tasks wait.
func (r *Runner[T]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wheel.Len()
}

// Wakeups returns how often the goroutine has woken up from sleep.
func (r *Runner[T]) Wakeups() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wakeups
}

// Stop ends the runner: no task is taken from now on. It does not wait for a task that is being
// passed on, so Handle may call it; [Runner.Done] is closed after that. Stopping again changes
// nothing.
func (r *Runner[T]) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.stopped = true
		close(r.stop)
	}
}

// Done is closed when the runner was stopped and its goroutine has ended.
func (r *Runner[T]) Done() <-chan struct{} { return r.done }

// Drain stops the runner, takes all tasks that are left, and calls f with each, in the order of
// their ticks, on the goroutine of the caller. It does not wait for a task that is being passed on.
func (r *Runner[T]) Drain(f func(*wheel.Task[T])) {
	r.Stop()
	for t := r.popFirst(); t != nil; t = r.popFirst() {
		f(t)
	}
}

// popFirst takes the first task, due or not.
func (r *Runner[T]) popFirst() *wheel.Task[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wheel.Advance(noDeadline)
	return r.wheel.Pop()
}

func (r *Runner[T]) run() {
	defer close(r.done)
	defer r.Stop()
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	for {
		t, sleep := r.next()
		if t != nil {
			r.dispatch(t)
			continue
		}
		alarm.Reset(sleep)
		select {
		case <-alarm.C:
		case <-r.wakeCh:
		case <-r.stop:
			return
		}
		r.woken()
	}
}

// next takes the next task that is due. If none is, it returns how long to sleep.
func (r *Runner[T]) next() (*wheel.Task[T], time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, math.MaxInt64
	}
	if t := r.wheel.Pop(); t != nil {
		return t, 0
	}
	elapsed := time.Since(r.origin)
	r.wheel.Advance(r.tick(elapsed))
	if t := r.wheel.Pop(); t != nil {
		return t, 0
	}
	next, ok := r.wheel.Next()
	if !ok {
		next = noDeadline
	}
	r.sleepUntil = next
	return nil, r.until(next, elapsed)
}

func (r *Runner[T]) woken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sleepUntil = 0
	r.wakeups++
}

func (r *Runner[T]) dispatch(t *wheel.Task[T]) {
	if r.panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				r.panicked(t, v, debug.Stack())
			}
		}()
	}
	r.handle(t)
}

// tick returns the tick that runs after the time elapsed.
func (r *Runner[T]) tick(elapsed time.Duration) timeout.Tick { return timeout.Tick(elapsed / r.unit) }

// end returns the first tick that begins no earlier than after from now, or the one that runs. The sum of two durations
// fits a Tick, but not a Duration.
func (r *Runner[T]) end(elapsed, after time.Duration) timeout.Tick {
	if after <= 0 {
		return r.tick(elapsed)
	}
	return (timeout.Tick(elapsed)+timeout.Tick(after)-1)/timeout.Tick(r.unit) + 1
}

// until returns how long it is until a tick begins: the longest time there is, if it is longer than that.
func (r *Runner[T]) until(tick timeout.Tick, elapsed time.Duration) time.Duration {
	if tick > r.tick(math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(tick)*r.unit - elapsed
}
