package adaptivesim

import (
	"math"
	"math/rand/v2"
)

// cores is the number of processors that a simulated process has.
const cores = 4

// place is where a step of a task is executed.
type place uint8

const (
	nowhere place = iota // no step
	processors
	backend
	commitLog
)

type step struct {
	at   place
	work float64 // seconds, if the task were alone; undefined in the log
}

// steps of a task, one after the other, up to the first that is nowhere.
type steps [4]step

// Workload is what tasks consist of, and what they compete for.
type Workload struct {
	Name string

	switching float64 // loss of the processors' capacity for each task beyond their number
	slots     int     // tasks that the backend serves at full speed
	thrash    float64 // loss of the backend's capacity for each task beyond its slots
	flush     float64 // seconds of a flush of the log
	row       float64 // seconds that each task in it adds

	draw func(r *rand.Rand, p *Phase) steps
}

// unlimited is a backend with a slot for every task.
const unlimited = 1 << 20

func orOne(factor float64) float64 {
	if factor == 0 {
		return 1
	}
	return factor
}

// exp draws from the exponential distribution, lognormal from the one with this mean
// and this standard deviation of the logarithm.
func exp(r *rand.Rand, mean float64) float64 { return mean * r.ExpFloat64() }

func lognormal(r *rand.Rand, mean, sigma float64) float64 {
	return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
}

// call is a task that waits for a backend between two pieces of computing.
func call(before, waiting, sigma, after float64) func(*rand.Rand, *Phase) steps {
	return func(r *rand.Rand, p *Phase) steps {
		slow, busy := orOne(p.Backend), orOne(p.Processors)
		return steps{
			{processors, exp(r, before*busy)},
			{backend, lognormal(r, waiting*slow, sigma)},
			{processors, exp(r, after*busy)},
		}
	}
}

// prime is a task that looks for the factors of a number: one of the 21 candidates has
// none, and takes the whole loop.
func prime(usual, heavy float64) func(*rand.Rand, *Phase) steps {
	return func(r *rand.Rand, p *Phase) steps {
		work := usual
		if r.IntN(21) == 0 {
			work += heavy
		}
		return steps{{processors, work * orOne(p.Processors)}}
	}
}

// The workloads of the dissertation, and of a coordinator: the first line of each is
// what its capacity depends on.
var (
	// Only processors: one task of 21 is heavy.
	prime10m = &Workload{Name: "Prime10m", switching: 0.001, slots: unlimited, draw: prime(0.0005, 0.1)}
	prime1m  = &Workload{Name: "Prime1m", switching: 0.001, slots: unlimited, draw: prime(0.003, 0.02)}

	// Processors, after three times as much waiting: best at 16 to 25.
	dbRead = &Workload{Name: "DbRead", switching: 0.001, slots: 64, thrash: 0.005, draw: call(0.002, 0.012, 0.5, 0.002)}

	// Group commit: each further task makes the flush longer, and all tasks faster.
	dbWrite = &Workload{
		Name: "DbWrite", switching: 0.001, slots: unlimited, flush: 0.02, row: 0.0006,
		draw: func(r *rand.Rand, p *Phase) steps {
			busy := orOne(p.Processors)
			return steps{{processors, exp(r, 0.0008*busy)}, {commitLog, 0}, {processors, exp(r, 0.0004*busy)}}
		},
	}

	// Locks: beyond 20 tasks each further one slows all down.
	lockCont = &Workload{Name: "LockCont", switching: 0.001, slots: 20, thrash: 0.02, draw: call(0.0005, 0.018, 0.6, 0)}

	// The second phase of a commit: calls of 200 ms to a participant that takes 200 at a time.
	dispatch = &Workload{Name: "Dispatch", switching: 0.001, slots: 200, thrash: 0.002, draw: call(0.0002, 0.2, 0.4, 0.0002)}

	// Few calls, 2 s each.
	slowRPC = &Workload{Name: "SlowRPC", switching: 0.001, slots: 40, thrash: 0.02, draw: call(0.001, 2, 0.5, 0.001)}

	// Processors and a participant that may become slow; three tasks of ten do not call it.
	mixed = &Workload{
		Name: "Mixed", switching: 0.002, slots: 400, thrash: 0.001,
		draw: func(r *rand.Rand, p *Phase) steps {
			s := call(0.002, 0.040/0.7, 0.5, 0.002)(r, p)
			if r.Float64() < 0.3 {
				s[1].work = 0
			}
			return s
		},
	}

	// Recovery and rollback: the next task arrives without waiting for an answer.
	openRPC  = &Workload{Name: "OpenRPC", switching: 0.001, slots: 300, thrash: 0.002, draw: call(0.0006, 0.03, 0.6, 0.0006)}
	openLock = &Workload{Name: "OpenLock", switching: 0.001, slots: 24, thrash: 0.02, draw: call(0.0004, 0.03, 0.6, 0.0004)}
)

// Workloads on which nothing was tuned.
var (
	// Two calls and two pieces of computing: prepare, then commit.
	twoPhase = &Workload{
		Name: "TwoPhase", switching: 0.001, slots: 128, thrash: 0.01,
		draw: func(r *rand.Rand, p *Phase) steps {
			slow, busy := orOne(p.Backend), orOne(p.Processors)
			return steps{
				{processors, exp(r, 0.0015*busy)},
				{backend, lognormal(r, 0.015*slow, 0.5)},
				{processors, exp(r, 0.001*busy)},
				{backend, lognormal(r, 0.015*slow, 0.5)},
			}
		},
	}

	// One call of ten takes twenty times as long.
	bimodal = &Workload{
		Name: "Bimodal", switching: 0.001, slots: 48, thrash: 0.01,
		draw: func(r *rand.Rand, p *Phase) steps {
			waiting := 0.008
			if r.IntN(10) == 0 {
				waiting *= 20
			}
			return steps{{processors, exp(r, 0.0005)}, {backend, waiting * orOne(p.Backend)}}
		},
	}

	// A small knee, and a large one.
	knee7   = &Workload{Name: "Knee7", switching: 0.001, slots: 7, thrash: 0.03, draw: call(0.0003, 0.01, 0.5, 0)}
	knee600 = &Workload{Name: "Knee600", switching: 0.001, slots: 600, thrash: 0.001, draw: call(0.0002, 0.3, 0.5, 0.0002)}

	// Calls whose times have a long tail.
	tailed = &Workload{Name: "Tailed", switching: 0.001, slots: 80, thrash: 0.01, draw: call(0.0005, 0.04, 1.4, 0.0005)}
)
