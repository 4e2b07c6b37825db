package recovery

// allowedLocked bounds what a lane may begin, so that there are no more calls at all
// participants together than Config.MaxCalls. One call is allowed to everybody: a
// thousand that hang delay nobody else. Lanes that are short of calls get those that
// end in turn, so that none keeps its many for ever. mu is held.
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

// reserveLocked keeps the calls that are free for those lanes that are short of some,
// one for each in turn; mu is held.
func (r *Recovery) reserveLocked() {
	for len(r.starved) > 0 && r.calls+r.reserved < r.cfg.MaxCalls {
		l := r.starved[0]
		r.starved[0] = nil
		r.starved = r.starved[1:]
		l.starved = false
		// At its own limit it is not short: when a call of its own ends it is looked at.
		if l.queued() > 0 && l.running < r.limitLocked(l) {
			l.reserved = true
			r.reserved++
		}
		r.markDirtyLocked(l)
	}
}

// unreserveLocked notes that a lane needs no call to be kept for it any more; mu is held.
func (r *Recovery) unreserveLocked(l *lane) {
	if l.reserved {
		l.reserved = false
		r.reserved--
	}
}
