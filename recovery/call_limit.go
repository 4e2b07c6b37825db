package recovery

// allowedLocked bounds the calls that a lane may begin, so that all participants together
// have no more than Config.MaxCalls. One call is always allowed to each: a thousand
// participants that hang delay no other. Starved lanes get the calls that end, in turn,
// so that no lane keeps many calls for ever. mu is held.
func (r *Recovery) allowedLocked(l *lane, ready int) int {
	free := r.cfg.MaxCalls - r.calls - r.reserved
	switch {
	case ready == 0:
		r.unreserveLocked(l)
		return 0
	case l.reserved:
		return min(ready, 1)
	case free > 0 && len(r.starved) == 0:
		return min(ready, free)
	case l.running == 0:
		return 1
	case !l.starved:
		l.starved = true
		r.starved = append(r.starved, l)
	}
	return 0
}

// reserveLocked keeps free calls for the starved lanes, one for each in turn; mu is held.
func (r *Recovery) reserveLocked() {
	for len(r.starved) > 0 && r.calls+r.reserved < r.cfg.MaxCalls {
		l := r.starved[0]
		r.starved[0] = nil
		r.starved = r.starved[1:]
		l.starved = false
		// A lane at its own limit is not starved: the end of one of its calls makes it dirty again.
		if l.queued() > 0 && l.running < r.limitLocked(l) {
			l.reserved = true
			r.reserved++
		}
		r.markDirtyLocked(l)
	}
}

// unreserveLocked releases the call that is kept free for a lane; mu is held.
func (r *Recovery) unreserveLocked(l *lane) {
	if l.reserved {
		l.reserved = false
		r.reserved--
	}
}
