package costa

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// phase is the purpose of an iteration of the dissertation's algorithms. The names
// are the dissertation's.
type phase uint8

const (
	none     phase = iota // no request has been completed yet
	inc                   // try a larger limit
	incCheck              // evaluate it
	dec                   // try a smaller limit
	decCheck              // evaluate it
)

// lock keeps a direction from being tried again too soon.
type lock struct{ left int }

func (l lock) open() bool       { return l.left == 0 }
func (l *lock) close(after int) { l.left = after + 1 } // the iteration that closes it counts
func (l *lock) tick()           { l.left = max(0, l.left-1) }

// cycle is what the three algorithms of the dissertation share: the round of phases, the
// locks, and, unless they are strict, the memory of the probe that is under way.
type cycle struct {
	Config
	phase    phase
	up, down lock

	probed int  // the limit before the probe that is under way, 0 if there is none
	asked  int  // the last decision
	level  bool // there is an earlier window to compare with
}

// Period is how long a window should be.
func (c *cycle) Period() time.Duration { return c.Config.Period }

// begin reports whether the algorithm may use a window, and if not, returns what to do
// instead.
func (c *cycle) begin(w *adaptive.Window) (adaptive.Decision, bool) {
	size := min(max(w.Limit, c.Min), c.Max)
	if w.Length() <= 0 {
		return adaptive.Decision{Limit: size, Why: "a window without a length says nothing"}, false
	}
	if c.phase == none && w.Completed > 0 {
		c.phase = inc
	}
	if c.Strict {
		return adaptive.Decision{Limit: size}, true
	}
	if c.asked != 0 && w.Limit != c.asked {
		c.probed = 0 // the limit was set manually: do not go back behind that
	}
	switch {
	case w.Completed == 0:
		return c.idle(size), false
	case !c.level: // a part of a window, or of the load
		c.level, c.phase = true, inc
		return adaptive.Decision{Limit: size}, false
	}
	return adaptive.Decision{Limit: size}, true
}

// idle handles a window in which nothing has completed. It is no evidence, and
// the next window has nothing to be compared with.
func (c *cycle) idle(size int) adaptive.Decision {
	d := adaptive.Decision{Limit: size}
	switch {
	case !c.KeepIdle && size > c.Min:
		d = adaptive.Decision{Limit: c.Min, Why: fmt.Sprintf("nothing has completed: back to %d", c.Min)}
	case c.probed != 0:
		d = adaptive.Decision{Limit: c.probed, Why: fmt.Sprintf("nothing has completed: back to the %d before the trial of %d", c.probed, size)}
	}
	c.probed, c.level = 0, false
	return c.close(d)
}

// close ends an iteration that has no phase.
func (c *cycle) close(d adaptive.Decision) adaptive.Decision {
	c.up.tick()
	c.down.tick()
	c.asked = d.Limit
	return d
}

// end ends an iteration: the next phase is next.
func (c *cycle) end(w *adaptive.Window, d adaptive.Decision, next phase) adaptive.Decision {
	c.phase = next
	if c.Strict && w.Completed == 0 && d.Limit > c.Min {
		d = adaptive.Decision{Limit: c.Min, Why: fmt.Sprintf("nothing has completed: back to %d", c.Min)}
	}
	return c.close(d)
}

// grow and shrink take a step, or refuse it if it would lead too far.
func (c *cycle) grow(size int) int {
	if size+c.Step > c.Max {
		return size
	}
	return size + c.Step
}

func (c *cycle) shrink(size int) int {
	if size-c.Step < c.Min {
		return size
	}
	return size - c.Step
}

// probe begins a trial of another limit.
func (c *cycle) probe(d *adaptive.Decision, limit int) {
	if limit == d.Limit {
		return
	}
	c.probed = d.Limit
	*d = adaptive.Decision{Limit: limit, Why: fmt.Sprintf("trying %d after %d", limit, d.Limit)}
}

// evaluate ends a trial. The published algorithm takes a step back, whether there was one
// forth or not; to return to where the trial began is meant.
func (c *cycle) evaluate(d *adaptive.Decision, l *lock, back int, better bool, gain string) {
	from := c.probed
	c.probed = 0
	if c.Strict {
		from = back
	}
	switch {
	case from == 0: // there was no trial
	case better:
		d.Why = fmt.Sprintf("keeping %d: %s", d.Limit, gain)
	default:
		l.close(c.Lock)
		*d = adaptive.Decision{Limit: from, Why: fmt.Sprintf("back to %d, and no more of that for %d windows: %s", from, c.Lock, gain)}
	}
}
