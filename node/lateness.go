package node

import (
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// latenessBounds are the upper bounds of the histogram's buckets, in seconds.
var latenessBounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// lateness is a histogram of how much later than the beginning of its tick a
// transaction was timed out. It is measured on the leader's monotonic clock, by which
// the tick begins after the timeout is over; so an election counts as far as it delayed
// this leader, and the time of the deposed one does not.
type lateness struct {
	counts [len(latenessBounds) + 1]atomic.Uint64 // the last one: beyond all bounds
	nanos  atomic.Int64
}

func (l *lateness) observe(late time.Duration, times uint64) {
	i := 0
	for i < len(latenessBounds) && late.Seconds() > latenessBounds[i] {
		i++
	}
	l.counts[i].Add(times)
	l.nanos.Add(int64(late) * int64(times))
}

// Lateness gives the histogram of how late transactions were timed out by this node,
// while it led: the upper bounds of the buckets in seconds, how many fell into each,
// the last one beyond all bounds, and the sum in seconds.
func (n *Node) Lateness() (bounds []float64, counts []uint64, sum float64) {
	counts = make([]uint64, len(n.late.counts))
	for i := range counts {
		counts[i] = n.late.counts[i].Load()
	}
	return latenessBounds[:], counts, time.Duration(n.late.nanos.Load()).Seconds()
}

// measure notes what the entry with the given index timed out, and gives one of the
// transactions. Those of one group come together.
func (n *Node) measure(index uint64, changes []machine.Change) (one txn.ID, count int) {
	var expiries []survival.Tick // of those that timed out
	n.fsm.View(func(m *machine.Machine) {
		for _, c := range changes {
			if c.Cause != txn.CauseTimeout {
				continue
			}
			if e, ok := m.TimedOut(c.ID, index); ok {
				one, expiries = c.ID, append(expiries, e)
			}
		}
	})
	for i := 0; i < len(expiries); {
		j := i + 1
		for j < len(expiries) && expiries[j] == expiries[i] {
			j++
		}
		n.late.observe(n.clock.since(expiries[i]), uint64(j-i))
		i = j
	}
	return one, len(expiries)
}
