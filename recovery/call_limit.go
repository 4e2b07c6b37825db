package recovery

// callLimit shares the calls that all participants together may have. Guarded by Recovery.mu.
type callLimit struct {
	most     int     // Config.MaxCalls
	running  int     // under way at all participants
	reserved int     // calls kept free for lanes that were starved
	starved  []*lane // those that wait until calls of other lanes end
}

// allowedLocked bounds the calls that a lane may begin, so that all participants together
// have no more than Config.MaxCalls. One call is always allowed to each: a thousand
// participants that hang delay no other. Starved lanes get the calls that end, in turn,
// so that no lane keeps many calls for ever. mu is held.
func (c *callLimit) allowedLocked(l *lane, ready int) int {
	free := c.most - c.running - c.reserved
	switch {
	case ready == 0:
		c.unreserveLocked(l)
		return 0
	case l.reserved:
		return min(ready, 1)
	case free > 0 && len(c.starved) == 0:
		return min(ready, free)
	case l.running == 0:
		return 1
	case !l.starved:
		l.starved = true
		c.starved = append(c.starved, l)
	}
	return 0
}

// reserveLocked keeps free calls for the starved lanes, one for each in turn; mu is held.
func (r *Recovery) reserveLocked() {
	for len(r.calls.starved) > 0 && r.calls.running+r.calls.reserved < r.cfg.MaxCalls {
		l := r.calls.starved[0]
		r.calls.starved[0] = nil
		r.calls.starved = r.calls.starved[1:]
		l.starved = false
		// A lane at its own limit is not starved: the end of one of its calls makes it dirty again.
		if l.queued() > 0 && l.running < r.limitLocked(l) {
			l.reserved = true
			r.calls.reserved++
		}
		r.lanes.markDirtyLocked(l)
	}
}

// unreserveLocked releases the call that is kept free for a lane; mu is held.
func (c *callLimit) unreserveLocked(l *lane) {
	if l.reserved {
		l.reserved = false
		c.reserved--
	}
}
