package adaptivesim

import (
	"math"
	"math/rand/v2"
)

// The disturbances of a machine, at strength 1.
const (
	driftSigma = 0.06 // standard deviation of the logarithm of a station's speed
	driftTime  = 20.0 // seconds after which a deviation has gone to 1/e
	driftStep  = 1.0

	pauseMean                     = 12.0 // seconds from one garbage collection to the next
	pauseShortest, pauseLongest   = 0.030, 0.150
	hiccupMean                    = 150.0 // from one long stall to the next
	hiccupShortest, hiccupLongest = 1.0, 2.5
	stallLength                   = 2.5 // of the stalls that a scenario requests
)

// Kinds of pauses.
const (
	collection int32 = iota
	hiccup
	stall
)

// noise is drawn from a stream of its own, in an order that nothing else changes: all
// runs of a scenario with one seed have the same pauses at the same moments.
type noise struct {
	rand     *rand.Rand
	strength float64

	processors, backend float64 // logarithms of their speeds
	pauses              int     // that overlap
}

func (s *simulation) beginNoise() {
	if s.noise.strength > 0 {
		s.after(driftStep, speedDrifts, 0)
		s.after(s.noise.rand.ExpFloat64()*pauseMean, pauseBegins, collection)
		s.after(s.noise.rand.ExpFloat64()*hiccupMean, pauseBegins, hiccup)
	}
	for _, at := range s.scenario.Stalls {
		s.after(at.Seconds(), pauseBegins, stall)
	}
}

func (s *simulation) drift() {
	n := &s.noise
	keep := math.Exp(-driftStep / driftTime)
	sigma := driftSigma * n.strength * math.Sqrt(1-keep*keep)
	n.processors = keep*n.processors + sigma*n.rand.NormFloat64()
	n.backend = keep*n.backend + sigma*n.rand.NormFloat64()
	s.applyNoise()
	s.after(driftStep, speedDrifts, 0)
}

// pause stops the process. Backends, and a flush that is under way, go on.
func (s *simulation) pause(which int32) {
	n := &s.noise
	n.pauses++
	s.applyNoise()
	between := func(a, b float64) float64 { return n.strength * (a + (b-a)*n.rand.Float64()) }
	switch which {
	case collection:
		s.after(between(pauseShortest, pauseLongest), pauseEnds, 0)
		s.after(n.rand.ExpFloat64()*pauseMean, pauseBegins, collection)
	case hiccup:
		s.after(between(hiccupShortest, hiccupLongest), pauseEnds, 0)
		s.after(n.rand.ExpFloat64()*hiccupMean, pauseBegins, hiccup)
	default:
		s.after(stallLength, pauseEnds, 0)
	}
}

func (s *simulation) applyNoise() {
	n := &s.noise
	s.processors.set(s.now, math.Exp(n.processors), n.pauses > 0)
	s.backend.set(s.now, math.Exp(n.backend), false)
	s.log.speed = math.Exp(n.backend)
}
