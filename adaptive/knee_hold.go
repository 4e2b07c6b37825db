package adaptive

import "math"

// hold is the state while the limit is left alone.
type hold struct {
	time    float64 // of load since the hold began
	wait    float64 // until the next probe
	probeUp bool    // which goes up

	rate, service   float64   // ln rate and mean ln service as they usually are
	windows         int       // that went into them
	rates, services []float64 // how far the last ones were off
	stalled         float64   // seconds for which nearly nothing has completed
	alarm           alarm
	damping         float64 // makes the alarm less sensitive after a false one; fades
}

// alarm is the phase of a search that was begun because the work has changed.
type alarm uint8

const (
	noAlarm      alarm = iota
	searchDown         // a larger limit is no better, or out of the question
	searchAround       // larger and smaller limits are still to be tried
)

const (
	change      = 0.25 // of ln rate, or ln service, that is another regime
	recentLeast = 10   // windows whose median must show it, at least
	recentMost  = 60   // and at most
	recentTasks = 8.0  // and at least those of so many service times
	probeRatio  = 1.25
	alarmRatio  = 1.5
	fading      = 60.0 // seconds in which the memory of the best capacity, and of false alarms, fades
)

// clearAlarm ends an alarm, and sets how long it is until the next probe.
func (h *hold) clearAlarm(wait float64) {
	h.wait = wait
	h.alarm = noAlarm
}

func (h *hold) forgetRecent() { h.rates, h.services = h.rates[:0], h.services[:0] }

// enterHold leaves the base alone.
func (k *knee) enterHold() {
	k.mode = holding
	k.endTrial()
	if k.limit != k.base {
		k.explain("holding %d", k.base)
	}
	k.resize(k.base)
	h := &k.hold
	h.time, h.windows, h.stalled, h.alarm = 0, 0, 0, noAlarm
	h.forgetRecent()
}

// holdOn watches a window of the hold.
func (k *knee) holdOn(s sample, d float64) {
	h := &k.hold
	h.time += d
	if h.windows == 0 || len(k.proof) == 1 {
		k.setExpected()
	}
	if k.stalled(s, d) {
		return
	}
	rate := math.Log(max(s.completed, 0.5) / s.seconds)
	if k.changed(s, rate) {
		k.restartSearch()
		return
	}
	part := max(0.02, 1/float64(h.windows+4))
	if math.Abs(rate-h.rate) < 0.5 {
		h.rate += part * (rate - h.rate)
		h.service += part * (s.logService - h.service)
	}
	if k.best > h.rate {
		k.best -= (k.best - h.rate) * min(1, d/fading)
	}
	h.damping -= (h.damping - 1) * min(1, d/fading)
	if h.time >= h.wait && len(k.proof) >= 8 {
		k.probe()
	}
}

// setExpected takes the usual rate and service time from the proof.
func (k *knee) setExpected() {
	h := &k.hold
	h.forgetRecent()
	h.rate = k.proof.estimate(0, 3).log
	services := make([]float64, len(k.proof))
	for i, s := range k.proof {
		services[i] = s.logService
	}
	h.service = median(services)
}

// changed reports whether the work is not what it was: the median of the last
// windows is off by more than chance explains.
func (k *knee) changed(s sample, rate float64) bool {
	h := &k.hold
	h.windows++
	recent := k.recent()
	h.rates = last(append(h.rates, rate-h.rate), recent)
	h.services = last(append(h.services, s.logService-h.service), recent)
	if len(h.rates) < recent {
		return false
	}
	chance := math.Sqrt(s.cv2 / max(s.completed, 1))
	off, slower := median(h.rates), median(h.services)
	if math.Abs(off) <= max(change, 0.1+1.2*chance)*h.damping && math.Abs(slower) <= max(change, 0.1+0.6*chance)*h.damping {
		return false
	}
	k.explain("at %d the rate has changed by %+.0f%%, the time of service by %+.0f%%", k.base, percent(off), percent(slower))
	return true
}

// recent is how many windows show the present work. Tasks that last for many
// windows come and go in waves, which are no change: recent covers them.
func (k *knee) recent() int {
	waves := recentTasks * k.service / k.Knee.Period.Seconds()
	return int(min(max(waves, recentLeast), recentMost))
}

func last(values []float64, n int) []float64 { return values[max(0, len(values)-n):] }

// restartSearch drops the knowledge of the old regime, and tries one limit on either
// side.
func (k *knee) restartSearch() {
	k.hi, k.lo, k.stalledTrials = 0, 0, 0
	k.best = math.Inf(-1)
	k.hold.wait = k.ProbeAfter.Seconds()
	k.hold.forgetRecent()
	k.proof.keep(4)
	if !k.bound {
		k.tryLower()
		return
	}
	k.hold.alarm, k.mode = searchAround, probingUp
	if !k.try(max(int(math.Ceil(alarmRatio*float64(k.base))), k.base+2), "the best limit may be another") {
		k.tryLower() // at Max, or with saturated processors, there is only one side
	}
}

// tryLower is the second half of an alarm.
func (k *knee) tryLower() {
	k.hold.alarm, k.mode = searchDown, probingDown
	if c := int(float64(k.base) / alarmRatio); c < k.Min || !k.try(c, "the best limit may be another") {
		k.enterHold()
	}
}

// probe tries whether the next limit has become better; up and down in turns.
func (k *knee) probe() {
	h := &k.hold
	if !k.bound {
		h.probeUp = false
	}
	for range 2 { // at Min, at Max, and with saturated processors, there is only one side
		c := int(math.Ceil(float64(k.base) * probeRatio))
		k.mode = probingUp
		if !h.probeUp {
			c = int(float64(k.base) / probeRatio)
			k.mode = probingDown
		}
		if (k.bound || !h.probeUp) && k.try(c, "looking whether it is better by now") {
			return
		}
		h.probeUp = !h.probeUp
	}
	k.mode = holding
	h.time = 0
}

// probeFailed ends a probe that changed nothing.
func (k *knee) probeFailed() {
	h := &k.hold
	switch h.alarm {
	case searchAround:
		k.tryLower()
		if k.trial.limit != 0 {
			return
		}
		fallthrough
	case searchDown:
		h.alarm = noAlarm
		h.damping = min(h.damping*1.5, 4)
	default:
		h.wait = min(2*h.wait, 16*k.ProbeAfter.Seconds())
		h.probeUp = !h.probeUp
	}
	k.enterHold()
}
