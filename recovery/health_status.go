package recovery

import (
	"cmp"
	"errors"
	"time"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/recovery/breaker"
	"github.com/txmgr/txmgr/recovery/scan"
)

// healthStatus is whether a participant works, as far as calls, probes and sweeps have told:
// see the package's invariant 10. Guarded by Recovery.mu.
type healthStatus struct {
	participant string
	br          breaker.Breaker
	fails       int           // calls that failed since the last success
	lastErr     string        // error of the last of them
	lastContact time.Time     // the last answer, failed or not, to a call or probe
	took        time.Duration // by the last probe, or the last sweep whose scan failed
	probeErr    string        // why the last probe failed; empty when it did not
	scanFailed  bool          // the last sweep could not list the prepared branches
	sweepErr    string        // why the last sweep failed; empty when it did not
	pruneErr    string        // why the last pruning failed; empty when it did not
	since       time.Time     // when unhealthy last changed
	unhealthy   bool          // not healthy since then
	down        bool          // as last passed to onChange
	downSince   time.Time
	onChange    func(HealthChange)
}

// healthy reports whether no failure of the participant is known.
func (h *healthStatus) healthy() bool {
	return h.br.Closed() && h.fails == 0 && !h.scanFailed && h.probeErr == ""
}

// text makes an error fit to be kept. Equal texts are kept once, because when a
// participant is down all its branches have the same error.
func (h *healthStatus) text(err error) string {
	if err == nil {
		return ""
	}
	s := redact.Text(err.Error())
	if s == h.lastErr {
		return h.lastErr
	}
	return s
}

// recordSuccessLocked notes that the participant answered; mu is held.
func (h *healthStatus) recordSuccessLocked() {
	h.clearFailuresLocked()
	h.noteContactLocked()
}

// recordFailureLocked counts a failure of the participant; mu is held.
func (h *healthStatus) recordFailureLocked(text string, now time.Duration, probe bool) {
	h.br.Failure(now, probe)
	h.fails++
	h.lastErr = text
	h.noteContactLocked()
}

// recordProbeLocked records how a probe went; mu is held.
func (h *healthStatus) recordProbeLocked(took time.Duration, err error) {
	h.probeErr, h.took = "", took
	if err != nil {
		h.probeErr = redact.Text("check: " + err.Error())
	}
	h.noteContactLocked()
}

// recordSweepErrorLocked records that a sweep failed; mu is held.
func (h *healthStatus) recordSweepErrorLocked(took time.Duration, err error) {
	h.scanFailed, h.sweepErr = errors.Is(err, scan.ErrListPrepared), redact.Text("sweep: "+err.Error())
	if h.scanFailed {
		h.took = took
		h.noteContactLocked()
	}
}

// recordSweepLocked records that a sweep succeeded, which lets a probe through. finished
// means that no call or retry can clear a failure any more: then none is left. mu is held.
func (h *healthStatus) recordSweepLocked(now time.Duration, finished bool) {
	h.scanFailed, h.sweepErr = false, ""
	h.br.AllowProbe(now)
	if finished {
		h.clearFailuresLocked()
	}
	h.updateLocked()
}

// clearFailuresLocked forgets the failures of calls; mu is held.
func (h *healthStatus) clearFailuresLocked() {
	h.br.Success()
	h.fails, h.lastErr = 0, ""
}

// noteContactLocked records that a call or probe has reported on the participant; mu is held.
func (h *healthStatus) noteContactLocked() {
	h.lastContact = time.Now()
	h.updateLocked()
}

// updateLocked records when the participant becomes unhealthy, or healthy; mu is held.
func (h *healthStatus) updateLocked() {
	if unhealthy := !h.healthy(); !h.lastContact.IsZero() && (unhealthy != h.unhealthy || h.since.IsZero()) {
		h.unhealthy, h.since = unhealthy, time.Now()
	}
	h.updateDownLocked()
}

// updateDownLocked records that the participant goes down, or is healthy again; mu is held.
// A single failed call is neither.
func (h *healthStatus) updateDownLocked() {
	switch down := !h.br.Closed() || h.scanFailed || h.probeErr != ""; {
	case down && !h.down:
		h.down, h.downSince = true, time.Now()
		h.onChange(HealthChange{Participant: h.participant, Error: cmp.Or(h.lastErr, h.probeErr, h.sweepErr)})
	case h.down && h.healthy():
		h.down = false
		h.onChange(HealthChange{Participant: h.participant, Up: true, Down: time.Since(h.downSince)})
	}
}
