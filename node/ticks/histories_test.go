package ticks

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/timeout/survival"
)

// clockHistory models the clocks of a cluster, and nothing else of it: any sequence of entries,
// lagging followers, leaders that change or restart, snapshots, suspended machines, and
// oscillators that differ.
type clockHistory struct {
	t       *testing.T
	rng     *rand.Rand
	seed    uint64
	replica []*nodeClock
	log     []stampedEntry
	commit  int // entries of the log that a leader has committed
	leader  *nodeClock
	term    uint64
	open    []grantedDeadline
	early   bool
}

// nodeClock is one node's state of time.
type nodeClock struct {
	clock   *Clock
	has     int // entries of the log that have arrived
	applied int
	led     uint64        // term in which it took over last
	tick    survival.Tick // of its state machine
	stood   time.Duration // how long its machine was suspended
	fast    time.Duration // by which its oscillator gains in a second; negative if it loses
}

// start starts a node without state. Its monotonic clock stops while the node is suspended, and
// gains or loses a little.
func (c *nodeClock) start() {
	*c = nodeClock{fast: c.fast}
	began := time.Now()
	c.clock = &Clock{read: func() time.Time {
		passed := time.Since(began) - c.stood
		return began.Add(passed + time.Duration(passed.Seconds()*float64(c.fast)))
	}}
}

// maxDrift is the most that an oscillator gains or loses in a second: a hundred times as much as a
// real one.
const maxDrift = 10 * time.Millisecond

type stampedEntry struct {
	term uint64
	tick survival.Tick
}

// grantedDeadline is a deadline that a leader granted: no entry may carry its tick earlier.
type grantedDeadline struct {
	tick survival.Tick
	due  time.Time
	at   int // the entry that granted it
}

const historyInterval = 100 * time.Millisecond

// receive lets entries up to the given one arrive.
func (h *clockHistory) receive(c *nodeClock, to int) {
	for ; c.has < to; c.has++ {
		c.clock.RecordArrival(h.position(c.has))
	}
}

// position is the position of an entry.
func (h *clockHistory) position(i int) raftfsm.Position {
	return raftfsm.Position{Index: uint64(i + 1), Term: h.log[i].term}
}

// catchUp applies entries up to the given one.
func (h *clockHistory) catchUp(c *nodeClock, to int) {
	h.receive(c, to)
	for ; c.applied < to; c.applied++ {
		e := h.log[c.applied]
		c.tick = max(c.tick, e.tick)
		c.clock.Anchor(c.tick, historyInterval, h.position(c.applied), e.term == c.led)
	}
}

// stamp writes an entry, which may grant a deadline.
func (h *clockHistory) stamp() {
	l := h.leader
	tick, untilNext := l.clock.Now()
	if h.rng.IntN(2) == 0 {
		timeout := historyInterval + time.Duration(h.rng.Int64N(int64(20*time.Second)))
		i, err := survival.NewIndex(timeout, untilNext, historyInterval)
		if err != nil {
			h.t.Fatal(err)
		}
		// A clock that gains counts the timeout too fast by that much, and by no more.
		gained := time.Duration(timeout.Seconds() * float64(maxDrift))
		h.open = append(h.open, grantedDeadline{i.Hash(tick), time.Now().Add(timeout - gained), len(h.log)})
	}
	for _, p := range h.open {
		if tick >= p.tick && time.Now().Before(p.due) && p.at < len(h.log) {
			h.early = true
			h.t.Errorf("seed %d: the leader of term %d stamps tick %d, %v too early for a deadline that came with entry %d of term %d", h.seed, h.term, tick, time.Until(p.due), p.at, h.log[p.at].term)
		}
	}
	h.log = append(h.log, stampedEntry{h.term, tick})
	h.receive(l, len(h.log))
	for _, c := range h.replica {
		if h.rng.IntN(3) == 0 {
			h.receive(c, len(h.log))
		}
	}
	if h.rng.IntN(4) > 0 {
		h.commit = len(h.log)
		h.catchUp(l, h.commit)
	}
}

// elect makes another node the leader, or the same one in a new term. The leader has all committed
// entries, and a random number of the others.
func (h *clockHistory) elect() {
	h.commit += h.rng.IntN(len(h.log) - h.commit + 1)
	h.log = h.log[:h.commit]
	h.open = slices.DeleteFunc(h.open, func(p grantedDeadline) bool { return p.at >= h.commit })
	h.term++
	for _, c := range h.replica {
		c.has = min(c.has, h.commit)
	}
	l := h.replica[h.rng.IntN(len(h.replica))]
	h.catchUp(l, h.commit)
	l.led = h.term
	h.leader = l
}

// restart restarts a node, without state or from a snapshot.
func (h *clockHistory) restart(c *nodeClock) {
	if c == h.leader {
		h.leader = nil
	}
	c.start()
	if from := h.rng.IntN(h.commit + 1); h.rng.IntN(2) == 0 {
		h.install(c, from)
	}
}

// install replaces entries by a snapshot.
func (h *clockHistory) install(c *nodeClock, to int) {
	if to <= c.applied {
		return
	}
	for ; c.applied < to; c.applied++ {
		c.tick = max(c.tick, h.log[c.applied].tick)
	}
	c.has = max(c.has, to)
	c.clock.Anchor(c.tick, historyInterval, raftfsm.Position{}, false)
}

func (h *clockHistory) step() {
	if h.rng.IntN(3) > 0 {
		pass(time.Duration(h.rng.Int64N(int64(500 * time.Millisecond))))
	}
	c := h.replica[h.rng.IntN(len(h.replica))]
	switch k := h.rng.IntN(20); {
	case h.leader == nil || k == 0:
		pass(time.Duration(h.rng.Int64N(int64(3 * time.Second))))
		h.elect()
	case k == 1:
		h.restart(c)
	case k == 2 && c != h.leader:
		h.install(c, h.commit)
	case k == 3:
		d := time.Duration(h.rng.Int64N(int64(time.Second)))
		pass(d)
		c.stood += d
	case k < 11:
		h.stamp()
	case c != h.leader:
		h.catchUp(c, c.applied+h.rng.IntN(h.commit-c.applied+1))
	}
}

// TestNoHistoryMakesAClockEarly: no leader, whatever it has lost or not received yet, stamps an
// entry with a tick before the deadlines at that tick, which other leaders granted, have passed.
func TestNoHistoryMakesAClockEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := 0
		for seed := range uint64(3000) {
			h := &clockHistory{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1))}
			for range 3 {
				c := &nodeClock{fast: time.Duration(h.rng.Int64N(int64(2*maxDrift))) - maxDrift}
				c.start()
				h.replica = append(h.replica, c)
			}
			h.elect()
			for range 300 {
				if h.step(); h.early {
					return
				}
			}
			given += len(h.open)
		}
		if given < 100_000 {
			t.Errorf("only %d deadlines were given", given)
		}
	})
}
