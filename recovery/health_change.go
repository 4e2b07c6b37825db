package recovery

import "time"

// HealthChange is a change of a participant's health: it went down, because its breaker
// opened, a probe failed or a sweep could not list the prepared branches; or it is healthy again.
type HealthChange struct {
	Participant string
	Up          bool
	// Error is why it went down, and Down how long it was down when it is up again.
	Error string
	Down  time.Duration
}

// healthChanges are the changes of health that are not delivered yet. Guarded by Recovery.mu.
type healthChanges struct {
	pending   []HealthChange
	notifying bool
}

// queueHealthChangeLocked passes a change to [Config.OnHealthChange], in order and without the
// lock; mu is held.
func (r *Recovery) queueHealthChangeLocked(t HealthChange) {
	if r.cfg.OnHealthChange == nil || r.state != running {
		return
	}
	r.healthChanges.pending = append(r.healthChanges.pending, t)
	if !r.healthChanges.notifying {
		r.healthChanges.notifying = true
		r.life.wg.Go(r.notifyHealthChanges)
	}
}

func (r *Recovery) notifyHealthChanges() {
	for {
		r.mu.Lock()
		changes := r.healthChanges.pending
		r.healthChanges = healthChanges{notifying: len(changes) > 0}
		r.mu.Unlock()
		if len(changes) == 0 {
			return
		}
		for _, t := range changes {
			r.cfg.OnHealthChange(t)
		}
	}
}
