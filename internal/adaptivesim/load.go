package adaptivesim

import "time"

// think is how long a user waits before the next task, on average.
const think = time.Millisecond

func (s *simulation) current() *Phase { return &s.scenario.Phases[s.phase] }

// enterPhase begins a phase.
func (s *simulation) enterPhase(phase int) {
	s.phase = phase
	p := s.current()
	s.result.Phases[phase].begin(s.now, p.Length)
	s.after(p.Length.Seconds(), phaseEnds, int32(phase)+1)

	ramp := p.Ramp
	if ramp == 0 {
		ramp = time.Second
	}
	s.users = int32(p.Users)
	for user := range s.users {
		if s.present[user] {
			continue
		}
		s.present[user] = true
		s.after(ramp.Seconds()*(float64(user)+s.arrivalRand.Float64())/float64(p.Users), userSends, user)
	}
	for range p.Backlog {
		s.submit(-1)
	}
	s.generation++
	s.inBurst = false
	if p.Rate > 0 {
		s.after(s.arrivalRand.ExpFloat64()/p.Rate, taskArrives, s.generation)
		if p.Burst > 0 {
			s.after((p.BurstEvery - p.BurstFor).Seconds(), burstToggles, s.generation)
		}
	}
	s.applyNoise()
}

func (s *simulation) send(user int32) {
	if user >= s.users {
		s.present[user] = false
		return
	}
	s.submit(user)
}

func (s *simulation) arrive(flow int32) {
	if flow != s.generation {
		return
	}
	s.submit(-1)
	p := s.current()
	rate := p.Rate
	if s.inBurst {
		rate *= p.Burst
	}
	s.after(s.arrivalRand.ExpFloat64()/rate, taskArrives, flow)
}

func (s *simulation) toggleBurst(flow int32) {
	if flow != s.generation {
		return
	}
	p := s.current()
	length := p.BurstFor
	if s.inBurst {
		length = p.BurstEvery - p.BurstFor
	}
	s.inBurst = !s.inBurst
	s.after(length.Seconds(), burstToggles, flow)
}
