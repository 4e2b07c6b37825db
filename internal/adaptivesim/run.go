package adaptivesim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// event is what happens at a moment that is known in advance.
type event struct {
	kind kind
	arg  int32
}

type kind uint8

const (
	userSends    kind = iota // arg: the user
	taskArrives              // arg: the generation of the open loop
	burstToggles             // the same; a burst begins or ends
	windowEnds               // the optimizer is asked
	phaseEnds                // arg: the next phase
	speedDrifts              // processors and backend become slightly faster or slower
	pauseBegins              // arg: which kind
	pauseEnds
	sampleEnds // arg: its number
)

// task is one that runs.
type task struct {
	arrived, started float64
	user             int32
	step             int8
	steps            steps
}

// simulation is one run. All moments and lengths are seconds since its beginning.
type simulation struct {
	scenario  *Scenario
	optimizer adaptive.Optimizer // nil leaves the limit as it is
	result    *Result

	now         float64
	events      heap[event]
	workRand    *rand.Rand // for the contents of tasks
	arrivalRand *rand.Rand // for their arrivals
	noise       noise

	processors, backend station
	log                 groupLog

	limit, busy int
	queue       queue
	spare       []*task // records to use again

	phase      int
	users      int32  // that may send
	present    []bool // which of them are present
	generation int32  // generation of the open loop
	inBurst    bool

	window windowMeter
	sample sampling
}

// Run runs a scenario on a simulated pool. The optimizer begins with limit; nil
// leaves it there. The same arguments give the same result, on every machine of one
// architecture.
func Run(scenario *Scenario, optimizer adaptive.Optimizer, limit int, seed uint64) *Result {
	s := newSimulation(scenario, optimizer, limit, seed)
	s.begin()
	for s.step() {
	}
	s.countLeft()
	return s.result
}

// Streams of one seed: a draw from one does not change the others.
const (
	streamWork = iota + 1
	streamArrivals
	streamNoise
)

func newSimulation(scenario *Scenario, optimizer adaptive.Optimizer, limit int, seed uint64) *simulation {
	w := scenario.Workload
	s := &simulation{
		scenario:    scenario,
		optimizer:   optimizer,
		result:      newResult(scenario, limit),
		workRand:    rand.New(rand.NewPCG(seed, streamWork)),
		arrivalRand: rand.New(rand.NewPCG(seed, streamArrivals)),
		noise:       noise{rand: rand.New(rand.NewPCG(seed, streamNoise)), strength: scenario.Noise},
		processors:  newStation(cores, w.switching, Max),
		backend:     newStation(w.slots, w.thrash, Max),
		log:         groupLog{flush: w.flush, row: w.row, speed: 1, next: math.Inf(1)},
		limit:       limit,
	}
	users := 0
	for i := range scenario.Phases {
		users = max(users, scenario.Phases[i].Users)
	}
	s.present = make([]bool, users)
	return s
}

func (s *simulation) begin() {
	s.enterPhase(0)
	if s.optimizer != nil {
		s.window.begin(0)
		s.after(s.optimizer.Period().Seconds(), windowEnds, 0)
	}
	s.beginNoise()
	s.planSample(1)
}

// after schedules an event.
func (s *simulation) after(seconds float64, k kind, arg int32) {
	s.events.push(s.now+seconds, event{k, arg})
}

// step handles the next event, and reports whether there are more.
func (s *simulation) step() bool {
	next := s.events[0].at
	switch done := min(s.processors.next, s.backend.next, s.log.next); {
	case done > next:
		e := s.events.pop()
		s.advanceTo(e.at)
		return s.handle(e.value)
	case done == s.processors.next:
		s.advanceTo(done)
		s.proceed(s.processors.take(done))
	case done == s.backend.next:
		s.advanceTo(done)
		s.proceed(s.backend.take(done))
	default:
		s.advanceTo(done)
		s.flushed()
	}
	return true
}

// advanceTo advances the time.
func (s *simulation) advanceTo(now float64) {
	if s.optimizer != nil {
		s.window.advance(now-s.now, s.busy, s.queue.count, len(s.processors.tasks), s.noise.pauses > 0)
	}
	s.now = now
}

func (s *simulation) handle(e event) bool {
	switch e.kind {
	case userSends:
		s.send(e.arg)
	case taskArrives:
		s.arrive(e.arg)
	case burstToggles:
		s.toggleBurst(e.arg)
	case windowEnds:
		s.askOptimizer()
	case phaseEnds:
		s.endSample()
		s.result.Phases[s.phase].end(s.now, s.limit)
		if int(e.arg) == len(s.scenario.Phases) {
			return false
		}
		s.enterPhase(int(e.arg))
	case speedDrifts:
		s.drift()
	case pauseBegins:
		s.pause(e.arg)
	case pauseEnds:
		s.noise.pauses--
		s.applyNoise()
	case sampleEnds:
		s.endSample()
		s.planSample(e.arg + 1)
	}
	return true
}

// askOptimizer passes the window to the optimizer, and applies its decision.
func (s *simulation) askOptimizer() {
	w := s.window.take(s.now, s.limit, s.queue.count)
	d := s.optimizer.Observe(w)
	s.window.next(s.busy, s.queue.count)
	to := min(max(d.Limit, 1), Max)
	if to != s.limit || d.Why != "" {
		s.result.Decisions = append(s.result.Decisions, Decision{
			At: duration(s.now), Phase: s.phase, From: s.limit, To: to, Why: d.Why,
		})
	}
	s.resize(to)
	s.after(s.optimizer.Period().Seconds(), windowEnds, 0)
}

// resize takes effect at once upwards; downwards, tasks that run go on to their end.
func (s *simulation) resize(to int) {
	if to == s.limit {
		return
	}
	s.result.Phases[s.phase].countLimit(s.now, s.limit)
	s.limit = to
	s.fill()
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
