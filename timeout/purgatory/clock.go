package purgatory

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/wheel"
	"github.com/txmgr/txmgr/timeout/wheel/runner"
)

// Config sets how precisely a purgatory keeps deadlines. The zero Config suits requests that wait
// for seconds and minutes.
type Config struct {
	// Tick is the smallest unit of time: a deadline is kept up to a tick late. Defaults to 10 ms.
	Tick time.Duration
	// WheelSize is how many buckets a block of the timing wheel has. Defaults to [wheel.DefaultSize].
	WheelSize int
}

const defaultTick = 10 * time.Millisecond

// clock keeps the deadlines of all requests. It is what a [Parked] has of its purgatory.
type clock struct {
	parked  atomic.Int64 // requests that are not completed
	stopped atomic.Bool
	tick    time.Duration
	runner  *runner.Runner[*Parked]
}

func startClock(c Config) (*clock, error) {
	if c.Tick == 0 {
		c.Tick = defaultTick
	}
	k := &clock{tick: c.Tick}
	var err error
	k.runner, err = runner.Start(runner.Config[*Parked]{Tick: c.Tick, Size: c.WheelSize, Handle: onDue})
	if err != nil {
		return nil, fmt.Errorf("start the clock of a purgatory: %w", err)
	}
	return k, nil
}

// onDue handles the tasks whose tick has come, on the goroutine of the runner.
func onDue(t *wheel.Task[*Parked]) {
	if r := t.Value; t == &r.deadline {
		r.force(Expired)
	} else {
		r.tryComplete()
	}
}

// add puts a request into the wheel, before it watches anything: a check that finds it can complete it, which takes it
// out again. It reports false if the clock was stopped.
func (k *clock) add(r *Parked, timeout time.Duration) bool {
	r.deadline.Value = r
	k.parked.Add(1)
	return k.runner.Add(&r.deadline, timeout)
}

// remove takes a completed request out of the wheel, where it is unless its deadline has come.
func (k *clock) remove(r *Parked) {
	k.runner.Cancel(&r.deadline)
	k.parked.Add(-1)
}

// retryLater makes a request be tried once more, a tick from now, by a task of its own: its
// deadline stays where it is.
func (k *clock) retryLater(r *Parked) {
	k.runner.Add(&wheel.Task[*Parked]{Value: r}, k.tick)
}

func (k *clock) stop() {
	k.stopped.Store(true)
	var parked []*Parked
	k.runner.Drain(func(t *wheel.Task[*Parked]) { parked = append(parked, t.Value) })
	next := func() (r *Parked, ok bool) {
		if len(parked) == 0 {
			return nil, false
		}
		r, parked = parked[0], parked[1:]
		return r, true
	}
	each(next, func(r *Parked) { r.force(Stopped) })
}
