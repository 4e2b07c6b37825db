package timeoutbench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

// Limits of what can be measured.
const (
	MinSize = 100        // fewer entries give no information
	MaxSize = 10_000_000 // more do not fit the memory of most machines
)

// Task is one measurement: a contender by its name, a number of pending entries, and a load by its name.
type Task struct {
	Contender string `json:"contender"`
	Size      int    `json:"size"`
	Load      string `json:"load"`
}

// String describes the task in a line.
func (t Task) String() string { return fmt.Sprintf("%s, %d pending, %s", t.Contender, t.Size, t.Load) }

// Figures are the results of a measurement by the names of [Metrics]. Operations that a contender
// lacks are missing.
type Figures map[string]float64

// batch is how many entries a contender hands over at a time.
const batch = 4096

// Measure measures one of the contenders in this process, which should have done nothing before and do nothing after.
func Measure(contenders []Contender, t Task) (Figures, error) {
	l, err := LoadOf(t.Load)
	if err != nil {
		return nil, err
	}
	if t.Size < MinSize || t.Size > MaxSize {
		return nil, fmt.Errorf("%d pending entries: want %d to %d", t.Size, MinSize, MaxSize)
	}
	for _, c := range contenders {
		if c.Name != t.Contender {
			continue
		}
		found, err := c.measure(t)
		if err == nil && c.Expire != nil {
			found[Expire], err = c.Expire(t.Size, l)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
		return found, nil
	}
	return nil, fmt.Errorf("there is no contender %q", t.Contender)
}

// LoadOf returns the load with a name.
func LoadOf(name string) (Load, error) {
	for _, l := range Loads() {
		if l.Name == name {
			return l, nil
		}
	}
	return Load{}, fmt.Errorf("there is no load %q", name)
}

func measure[H any](fresh func(shared bool) Timers[H], t Task) (Figures, error) {
	l, err := LoadOf(t.Load)
	if err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	found := make(Figures)
	for _, part := range []func(func(bool) Timers[H], Load, int, Figures) error{
		measureMemory[H], measurePairs[H], measureTicks[H], measureChurn[H],
	} {
		if err := part(fresh, l, t.Size, found); err != nil {
			return nil, err
		}
		debug.FreeOSMemory()
	}
	return found, nil
}

// scattered returns a contender with so many entries, each of which was replaced once on the average.
func scattered[H any](fresh func(bool) Timers[H], l Load, size int) *pendingSet[H] {
	p := newPendingSet(fresh(false), l, size, roundOf(size), 0, 1)
	p.fill(size)
	p.churn(size)
	p.flush()
	runtime.GC()
	return p
}

// roundOf is how many entries are added and cancelled at a time: enough for the clock, few enough
// that the memory of a round is no burden.
func roundOf(size int) int { return max(size/20, min(size, 1000)) }

// rounds of adding and cancelling, of which the median counts.
const rounds = 20

// measurePairs measures add and cancel.
func measurePairs[H any](fresh func(bool) Timers[H], l Load, size int, found Figures) error {
	p := scattered(fresh, l, size)
	defer stop(p.timers)
	var adding, cancelling []float64
	for n := range rounds {
		p.draw(cap(p.round))
		took := p.timed(p.add)
		adding = append(adding, perEntry(took, len(p.round)))
		p.pick()
		took = p.timed(p.cancel)
		cancelling = append(cancelling, perEntry(took, len(p.round)))
		if n%5 == 4 {
			runtime.GC()
		}
	}
	found[Add], found[Cancel] = Median(adding), Median(cancelling)
	return p.checkLost()
}

func perEntry(took time.Duration, entries int) float64 { return float64(took) / float64(entries) }

// checkLost is the error of a contender that has lost entries.
func (p *pendingSet[H]) checkLost() error {
	if p.lost > 0 {
		return fmt.Errorf("%d pending entries could not be cancelled: this is a fault of the contender", p.lost)
	}
	return nil
}

// measureTicks measures the cost of passing ticks, for contenders without a clock.
func measureTicks[H any](fresh func(bool) Timers[H], l Load, size int, found Figures) error {
	probe := fresh(false)
	defer stop(probe)
	if _, ok := probe.(Stepper); !ok {
		return nil
	}
	// Reading a clock at each tick would be most of the figure where few entries end with one.
	p := scattered(fresh, l, size)
	ended := 0
	took := p.timed(func() { ended, _, _ = drain(p.timers.(Stepper), nil) })
	stop(p.timers)
	if ended != size {
		return fmt.Errorf("%d of %d entries ended: this is a fault of the contender", ended, size)
	}
	found[Expire] = perEntry(took, size)

	p = scattered(fresh, l, size)
	_, tick, step := drain(p.timers.(Stepper), p.timed)
	stop(p.timers)
	found[LongestTick], found[LongestStep] = microseconds(tick), microseconds(step)
	measureIdle(fresh, size, found)
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// drain lets everything end, tick by tick, a batch at a step. With a clock it returns the times of the longest tick and of the
// longest step.
func drain(timers Stepper, clock func(func()) time.Duration) (ended int, tick, step time.Duration) {
	buf := make([]uint64, batch)
	last := Horizon
	if l, ok := timers.(Late); ok {
		last += l.Late()
	}
	for to := range last + 1 {
		var all time.Duration
		for n := batch; n == batch; {
			if clock == nil {
				n = timers.Step(to, buf)
			} else {
				took := clock(func() { n = timers.Step(to, buf) })
				all += took
				step = max(step, took)
			}
			ended += n
		}
		tick = max(tick, all)
	}
	return ended, tick, step
}

// measureIdle measures ticks at which nothing ends, with all entries far ahead.
func measureIdle[H any](fresh func(bool) Timers[H], size int, found Figures) {
	const empty = 1000
	later := Load{"", func(r *rand.Rand) timeout.Tick { return Horizon + timeout.Tick(r.Uint64N(1000)) }}
	p := newPendingSet(fresh(false), later, size, roundOf(size), 0, 1)
	defer stop(p.timers)
	p.fill(size)
	p.flush()
	runtime.GC()
	timers, buf := p.timers.(Stepper), make([]uint64, batch)
	took := p.timed(func() {
		for to := range timeout.Tick(empty) {
			timers.Step(to+1, buf)
		}
	})
	found[IdleTick] = perEntry(took, empty)
}
