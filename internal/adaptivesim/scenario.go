package adaptivesim

import "time"

// Phase is a time during which load and resources stay the same, except for noise.
type Phase struct {
	Length time.Duration

	// Users send a task, wait for its end, think for a millisecond, and send the
	// next: a closed loop. New users arrive evenly within Ramp,
	// which defaults to 1 s; surplus users leave after their task.
	Users int
	Ramp  time.Duration

	// Rate is the number of tasks per second that arrive regardless of completions: an
	// open loop. With Burst, it is that many times as high for BurstFor in each
	// BurstEvery.
	Rate       float64
	Burst      float64
	BurstFor   time.Duration
	BurstEvery time.Duration

	// Backlog tasks are present at the beginning.
	Backlog int

	// Backend and Processors multiply the work of each task there; 0 means 1.
	Backend    float64
	Processors float64
}

// loaded phases are those in which something is to be done at all.
func (p *Phase) loaded() bool { return p.Users > 0 || p.Rate > 0 || p.Backlog > 0 }

// concurrent phases have more to do than one worker can.
func (p *Phase) concurrent() bool { return p.Users >= 10 || p.Rate > 0 || p.Backlog > 0 }

// Scenario is a workload under a load. It is not changed by a run.
type Scenario struct {
	Name     string
	Workload *Workload
	Phases   []Phase

	// Noise is how strong the noise is: 1 as usual, 0 not at all.
	Noise float64
	// Stalls are moments at which the process is paused for 2.5 s.
	Stalls []time.Duration

	// Shift means that resources change between phases, not only the users.
	Shift bool

	// Sample is the length of the pieces in Result.Samples; with 0 there are
	// none. The run does not depend on it.
	Sample time.Duration
}

// Open reports whether tasks arrive without waiting for others.
func (s *Scenario) Open() bool {
	for i := range s.Phases {
		if s.Phases[i].Rate > 0 || s.Phases[i].Backlog > 0 {
			return true
		}
	}
	return false
}

// Backlogged reports whether it begins with tasks that wait.
func (s *Scenario) Backlogged() bool { return s.Phases[0].Backlog > 0 }

// largest is the largest limit that makes a difference: with one worker for each
// user none of them ever waits.
func (s *Scenario) largest() int {
	if s.Open() {
		return Max
	}
	users := 1
	for i := range s.Phases {
		users = max(users, s.Phases[i].Users)
	}
	return min(users, Max)
}

// Max is the largest limit of a simulated pool.
const Max = 1024

func fixed(users int, length time.Duration) []Phase {
	return []Phase{{Length: length, Users: users}}
}

// varying is the dissertation's load of five phases; the picture is lost, its text is not:
// many, one, many, none, many.
func varying() []Phase { return Users(5*time.Minute, 50, 1, 100, 0, 50) }

// changing is the same load throughout, while one resource is slower in the middle phase.
func changing(users int, slow Phase) []Phase {
	slow.Length, slow.Users = 5*time.Minute, users
	usual := Phase{Length: 5 * time.Minute, Users: users}
	return []Phase{usual, slow, usual}
}

func bursts(rate, times float64) []Phase {
	return []Phase{{Length: 15 * time.Minute, Rate: rate, Burst: times, BurstFor: 10 * time.Second, BurstEvery: time.Minute}}
}

func backlog() []Phase {
	return []Phase{{Length: 10 * time.Minute, Backlog: 200_000, Rate: 20}}
}

// Suite returns the scenarios that optimizers are evaluated in: closed loops first.
func Suite() []*Scenario {
	const long, short = 15 * time.Minute, 10 * time.Minute
	return named(
		Scenario{Name: "fixed100", Workload: prime10m, Phases: fixed(100, long)},
		Scenario{Name: "fixed100", Workload: prime1m, Phases: fixed(100, long)},
		Scenario{Name: "fixed1", Workload: prime1m, Phases: fixed(1, short)},
		Scenario{Name: "fixed100", Workload: dbRead, Phases: fixed(100, long)},
		Scenario{Name: "fixed10", Workload: dbRead, Phases: fixed(10, short)},
		Scenario{Name: "fixed100", Workload: dbWrite, Phases: fixed(100, long)},
		Scenario{Name: "fixed100", Workload: lockCont, Phases: fixed(100, long)},
		Scenario{Name: "fixed30", Workload: lockCont, Phases: fixed(30, short)},
		Scenario{Name: "fixed400", Workload: dispatch, Phases: fixed(400, long)},
		Scenario{Name: "fixed100", Workload: slowRPC, Phases: fixed(100, long)},
		Scenario{Name: "varying", Workload: prime1m, Phases: varying()},
		Scenario{Name: "varying", Workload: dbRead, Phases: varying()},
		Scenario{Name: "varying", Workload: dbWrite, Phases: varying()},
		Scenario{Name: "varying", Workload: lockCont, Phases: varying()},
		Scenario{Name: "slowdown", Workload: mixed, Phases: changing(300, Phase{Backend: 5}), Shift: true},
		Scenario{Name: "slowdown", Workload: lockCont, Phases: changing(100, Phase{Backend: 4}), Shift: true},
		Scenario{Name: "bursts", Workload: openRPC, Phases: bursts(500, 5)},
		Scenario{Name: "bursts", Workload: openLock, Phases: bursts(500, 2)},
		Scenario{Name: "steady", Workload: prime10m, Phases: []Phase{{Length: long, Rate: 500}}},
		Scenario{Name: "backlog", Workload: dispatch, Phases: backlog()},
		Scenario{Name: "backlog", Workload: openLock, Phases: backlog()},
	)
}

// HeldOut returns scenarios on which nothing was tuned.
func HeldOut() []*Scenario {
	const length = 10 * time.Minute
	return named(
		Scenario{Name: "fixed200", Workload: twoPhase, Phases: fixed(200, length)},
		Scenario{Name: "fixed150", Workload: bimodal, Phases: fixed(150, length)},
		Scenario{Name: "fixed60", Workload: knee7, Phases: fixed(60, length)},
		Scenario{Name: "fixed900", Workload: knee600, Phases: fixed(900, length)},
		Scenario{Name: "fixed200", Workload: tailed, Phases: fixed(200, length)},
		Scenario{Name: "ramp", Workload: dbRead, Phases: []Phase{
			{Length: 10 * time.Minute, Users: 200, Ramp: 10 * time.Minute},
			{Length: 5 * time.Minute, Users: 200},
		}},
		Scenario{Name: "computing", Workload: mixed, Phases: changing(300, Phase{Processors: 3}), Shift: true},
		Scenario{Name: "slowdown", Workload: twoPhase, Phases: changing(200, Phase{Backend: 4}), Shift: true},
		Scenario{Name: "waves", Workload: openRPC, Phases: []Phase{
			{Length: 3 * time.Minute, Rate: 300},
			{Length: 3 * time.Minute, Rate: 2000},
			{Length: 3 * time.Minute, Rate: 300},
			{Length: 3 * time.Minute, Rate: 2000},
		}},
		Scenario{Name: "backlog", Workload: twoPhase, Phases: backlog()},
	)
}

func named(scenarios ...Scenario) []*Scenario {
	all := make([]*Scenario, len(scenarios))
	for i := range scenarios {
		s := scenarios[i]
		s.Name = s.Workload.Name + "/" + s.Name
		s.Noise = 1
		all[i] = &s
	}
	return all
}
