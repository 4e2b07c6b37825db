package adaptivesim

import "time"

// think is how long a user waits before the next task, on average.
const think = time.Millisecond

func (s *simulation) current() *Phase { return &s.scenario.Phases[s.phase] }

// enter begins a phase.
func (s *simulation) enter(phase int) {
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
		if s.there[user] {
			continue
		}
		s.there[user] = true
		s.after(ramp.Seconds()*(float64(user)+s.chance.Float64())/float64(p.Users), userSends, user)
	}
	for range p.Backlog {
		s.submit(-1)
	}
	s.flow++
	s.inBurst = false
	if p.Rate > 0 {
		s.after(s.chance.ExpFloat64()/p.Rate, taskArrives, s.flow)
		if p.Burst > 0 {
			s.after((p.BurstEvery - p.BurstFor).Seconds(), burstTurns, s.flow)
		}
	}
	s.applyNoise()
}

func (s *simulation) send(user int32) {
	if user >= s.users {
		s.there[user] = false
		return
	}
	s.submit(user)
}

func (s *simulation) arrive(flow int32) {
	if flow != s.flow {
		return
	}
	s.submit(-1)
	p := s.current()
	rate := p.Rate
	if s.inBurst {
		rate *= p.Burst
	}
	s.after(s.chance.ExpFloat64()/rate, taskArrives, flow)
}

func (s *simulation) turnBurst(flow int32) {
	if flow != s.flow {
		return
	}
	p := s.current()
	length := p.BurstFor
	if s.inBurst {
		length = p.BurstEvery - p.BurstFor
	}
	s.inBurst = !s.inBurst
	s.after(length.Seconds(), burstTurns, flow)
}
