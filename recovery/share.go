package recovery

// shareLocked bounds what a lane may begin, so that there are no more calls at all
// participants together than Config.MaxCalls. One call is allowed to everybody: a
// thousand that hang delay nobody else. Lanes that are short of calls get those that
// end in turn, so that none keeps its many for ever. mu is held.
func (r *Recovery) shareLocked(l *lane, ready int) int {
	free := r.cfg.MaxCalls - r.calls - r.kept
	switch {
	case ready == 0:
		r.uncallLocked(l)
		return 0
	case l.called:
		return min(ready, 1)
	case free > 0 && len(r.short) == 0:
		return min(ready, free)
	case l.running == 0:
		return 1
	case !l.short:
		l.short = true
		r.short = append(r.short, l)
	}
	return 0
}

// callLocked keeps the calls that are free for those lanes that are short of some,
// one for each in turn; mu is held.
func (r *Recovery) callLocked() {
	for len(r.short) > 0 && r.calls+r.kept < r.cfg.MaxCalls {
		l := r.short[0]
		r.short[0] = nil
		r.short = r.short[1:]
		l.short = false
		// At its own limit it is not short: when a call of its own ends it is looked at.
		if l.queued() > 0 && l.running < r.limitLocked(l) {
			l.called = true
			r.kept++
		}
		r.touchLocked(l)
	}
}

// uncallLocked notes that a lane needs no call to be kept for it any more; mu is held.
func (r *Recovery) uncallLocked(l *lane) {
	if l.called {
		l.called = false
		r.kept--
	}
}
