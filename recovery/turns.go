package recovery

import (
	"cmp"
	"time"
)

// Turn is a change of a participant's health: it went down, because its breaker has
// opened, a probe has failed or a sweep could not look; or it is healthy again.
type Turn struct {
	Participant string
	Up          bool
	// Error is why it is down, and Down how long it was when it is up again.
	Error string
	Down  time.Duration
}

// turns are the changes of health that nobody has been told yet. Guarded by Recovery.mu.
type turns struct {
	waiting []Turn
	telling bool
}

// turnLocked notes that the participant goes down, or comes back; mu is held. A single
// call that failed is neither.
func (l *lane) turnLocked() {
	switch down := !l.br.closed() || l.blind || l.unfit != ""; {
	case down && !l.down:
		l.down, l.downSince = true, time.Now()
		l.turned(Turn{Participant: l.name, Error: cmp.Or(l.lastErr, l.unfit, l.swept)})
	case l.down && l.healthy():
		l.down = false
		l.turned(Turn{Participant: l.name, Up: true, Down: time.Since(l.downSince)})
	}
}

// newsLocked has [Config.Turned] told, without the lock and in order; mu is held.
func (r *Recovery) newsLocked(t Turn) {
	if r.cfg.Turned == nil || r.state != running {
		return
	}
	r.turns.waiting = append(r.turns.waiting, t)
	if !r.turns.telling {
		r.turns.telling = true
		r.wg.Go(r.tell)
	}
}

func (r *Recovery) tell() {
	for {
		r.mu.Lock()
		news := r.turns.waiting
		r.turns = turns{telling: len(news) > 0}
		r.mu.Unlock()
		if len(news) == 0 {
			return
		}
		for _, t := range news {
			r.cfg.Turned(t)
		}
	}
}
