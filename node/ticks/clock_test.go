package ticks

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/timeout/survival"
)

func pass(d time.Duration) { <-time.After(d) }

// TestClockIsMonotonic: setting the wall clock moves no tick.
func TestClockIsMonotonic(t *testing.T) {
	var c Clock
	c.Anchor(1, time.Second, raftfsm.Position{}, false)
	if c.at == c.at.Round(0) {
		t.Error("the clock counts by the wall")
	}
}

// entryOf is a position in the log.
func entryOf(term, index uint64) raftfsm.Position { return raftfsm.Position{Index: index, Term: term} }

// TestAFollowerTakesOverALowerCount: a leader that was restarted counts less than a
// follower that was not. The deadlines that it gives are ticks of its own count: once
// the follower leads, none may expire too early.
func TestAFollowerTakesOverALowerCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		c.Anchor(1, time.Second, entryOf(1, 1), false)
		pass(50 * time.Second)
		if tick, _ := c.Now(); tick != 51 {
			t.Fatalf("tick %d", tick)
		}
		c.Anchor(6, time.Second, entryOf(2, 2), false) // the leader has lost 45 s
		if tick, _ := c.Now(); tick != 6 {
			t.Errorf("it counts %d, and the leader 6", tick)
		}
		pass(4 * time.Second)
		c.Anchor(7, time.Second, entryOf(3, 3), true) // it leads: an entry that was on its way
		if tick, _ := c.Now(); tick != 10 {
			t.Errorf("a leader's own entry moved its clock to %d", tick)
		}
	})
}

// TestAnElectionDoesNotSetTheClockBack: what a leader wrote just before it died is
// applied when there is another one. The time since it arrived is counted; what was counted
// before is not, since the machine of that leader may have been suspended.
func TestAnElectionDoesNotSetTheClockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		want := func(tick survival.Tick, when string) {
			t.Helper()
			if got, _ := c.Now(); got != tick {
				t.Errorf("%s: tick %d; want %d", when, got, tick)
			}
		}
		c.Anchor(100, time.Second, entryOf(1, 1), false)
		pass(5 * time.Second)
		c.RecordArrival(entryOf(1, 2))
		pass(3 * time.Second)
		c.Anchor(102, time.Second, entryOf(1, 2), false)
		want(105, "applied after an election")
		c.RecordArrival(entryOf(1, 3))
		c.RecordArrival(entryOf(2, 3)) // in its place
		pass(3 * time.Second)
		c.Anchor(106, time.Second, entryOf(1, 3), false)
		want(106, "of another term than what arrived")
		c.RecordArrival(entryOf(2, 4))
		pass(3 * time.Second)
		c.Anchor(103, time.Second, raftfsm.Position{}, false)
		want(103, "a snapshot does not say when it was written")
	})
}
