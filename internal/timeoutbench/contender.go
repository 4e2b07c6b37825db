package timeoutbench

import (
	"math/rand/v2"

	"github.com/txmgr/txmgr/timeout"
)

// Timers are the operations of a contender. H is what it needs to cancel an entry.
//
// Add adds the entry ids[n], which ends at ends[n] ticks from the beginning, and stores its handle in handles[n], for every
// n. Cancel cancels the entries ids[n] and returns how many of them were pending.
type Timers[H any] interface {
	Add(ids []uint64, ends []timeout.Tick, handles []H)
	Cancel(ids []uint64, handles []H) int
}

// Stepper is a contender without a clock: Step advances it to a tick and takes up to len(buf) of
// the due entries. A contender without it cannot be measured while entries end.
type Stepper interface {
	Step(to timeout.Tick, buf []uint64) int
}

// Late is a contender whose entries may end late, by up to that many ticks.
type Late interface{ Late() timeout.Tick }

// Flusher is a contender that does some of its work later, on goroutines of its own. Flush waits
// until all its pending work is done; the time of the whole process counts for it.
type Flusher interface{ Flush() }

// Stopper is a contender that has to be ended after the measurement.
type Stopper interface{ Stop() }

// Contender is one that can be measured.
type Contender struct {
	// Name is short: it stands above a column.
	Name string

	// Expire, for a contender with a clock, lets size entries of a load end, and returns the
	// nanoseconds for each. It may be nil.
	Expire func(size int, l Load) (float64, error)

	measure func(Task) (Figures, error)
}

// New returns a contender. fresh makes an empty one of its kind at tick 0, safe for concurrent use if shared is true, and
// otherwise with no more locks than its kind needs for one owner.
func New[H any](name string, fresh func(shared bool) Timers[H]) Contender {
	return Contender{Name: name, measure: func(t Task) (Figures, error) { return measure(fresh, t) }}
}

// Load is how far ahead the ends of entries lie.
type Load struct {
	Name  string
	Ahead func(r *rand.Rand) timeout.Tick
}

// Horizon is the tick after which no entry of a load ends: ten minutes from the beginning.
const Horizon timeout.Tick = 6000

// second is how many ticks a second has: a tick stands for 100 ms.
const second timeout.Tick = 10

// Loads are timeouts spread evenly from a second to ten minutes, and one minute for all.
func Loads() []Load {
	return []Load{
		{"uniform", func(r *rand.Rand) timeout.Tick { return second + timeout.Tick(r.Uint64N(uint64(Horizon-second)+1)) }},
		{"same", func(*rand.Rand) timeout.Tick { return 60 * second }},
	}
}
