package adaptive

import (
	"math"
	"slices"
)

// sample is the evidence of one window.
type sample struct {
	completed, seconds float64 // while the limit was binding
	cv2                float64 // of the service times
	logService         float64 // mean ln of the service times
}

func sampleOf(w *Window) sample {
	s := sample{
		completed: float64(w.BoundCompleted),
		seconds:   w.BoundTime.Seconds(),
		cv2:       w.Service.CV2(),
	}
	if n := w.Service.Count(); n > 0 {
		s.logService = w.Service.SumLog() / float64(n)
	}
	return s
}

func (s sample) rate() float64 { return s.completed / s.seconds }

// series is the evidence of the windows at one limit, oldest first.
type series []sample

const (
	proofMin  = 16   // windows of the base that are always kept
	proofMax  = 240  // windows of the base that are kept at most
	trialMax  = 1000 // windows of a trial that are kept at most
	stallRate = 0.35 // part of the usual rate below which a window is a stall
	// stallLeast is how many completions a window must usually have to be one: with
	// fewer, chance makes such windows, and what is left without them is too fast.
	stallLeast = 8

	// drift is the standard error that ln rate has even after any number of
	// completions, since machines become faster and slower.
	drift = 0.025
)

func (s *series) add(x sample) {
	if x.seconds > 0 {
		*s = append(*s, x)
	}
}

// fastest is the highest rate of a window.
func (s series) fastest() (rate float64) {
	for _, x := range s {
		rate = max(rate, x.rate())
	}
	return rate
}

// slowest is the lowest rate of a window.
func (s series) slowest() float64 {
	rate := math.Inf(1)
	for _, x := range s {
		rate = min(rate, x.rate())
	}
	return rate
}

func (s *series) clear() { *s = (*s)[:0] }

// keep forgets all but the last n windows.
func (s *series) keep(n int) {
	if drop := len(*s) - max(n, 0); drop > 0 {
		*s = append((*s)[:0], (*s)[drop:]...)
	}
}

// forget drops old windows: as long as 16 windows, 30 completions, three seconds, and
// three service times are left.
func (s *series) forget(service float64) {
	s.keep(proofMax)
	var completed, seconds float64
	for _, x := range *s {
		completed += x.completed
		seconds += x.seconds
	}
	n := len(*s)
	for _, x := range *s {
		completed -= x.completed
		seconds -= x.seconds
		if n <= proofMin || completed < 30 || seconds < max(2*shortestTrial, 3*service) {
			break
		}
		n--
	}
	s.keep(n)
}

// estimate is the evidence of a series about a limit.
type estimate struct {
	log       float64 // ln of the completions per second
	err       float64 // its standard error
	completed float64
	seconds   float64
}

// estimate leaves out windows with far less than the reference rate, or than the
// median if that is 0: a pause of the process is no evidence about the limit. But it leaves
// out no more than most seconds of them: a longer pause is none.
func (s series) estimate(reference, most float64) estimate {
	e := estimate{log: math.Inf(-1), err: math.Inf(1)}
	if reference == 0 {
		reference = s.medianRate()
	}
	var spread, dropped float64
	for _, x := range s {
		if x.rate() < stallRate*reference && reference*x.seconds >= stallLeast && dropped+x.seconds <= most {
			dropped += x.seconds
			continue
		}
		e.completed += x.completed
		e.seconds += x.seconds
		spread += x.cv2 * x.completed
	}
	switch {
	case e.seconds <= 0:
		return e
	case e.completed <= 0:
		e.log, e.err = math.Log(0.5/e.seconds), 0.7
	default:
		// Counts of a renewal process: the variance of ln count is cv²/count.
		e.log = math.Log(e.completed / e.seconds)
		e.err = math.Sqrt(spread/e.completed/e.completed + drift*drift)
	}
	return e
}

// medianRate is the upper median of the windows' rates, 0 without windows.
func (s series) medianRate() float64 {
	if len(s) == 0 {
		return 0
	}
	rates := make([]float64, len(s))
	for i, x := range s {
		rates[i] = x.rate()
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// median is the median of values, 0 without any.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
