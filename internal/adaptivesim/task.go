package adaptivesim

// submit submits a task to the pool.
func (s *simulation) submit(user int32) {
	s.queue.push(arrival{s.now, user})
	s.window.arrived()
	s.fill()
	s.window.queued(s.queue.count)
}

// fill starts tasks as long as the limit allows it.
func (s *simulation) fill() {
	for s.busy < s.limit && s.queue.count > 0 {
		s.start(s.queue.pop())
	}
}

func (s *simulation) start(a arrival) {
	var t *task
	if n := len(s.spare); n > 0 {
		t, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		t = new(task)
	}
	*t = task{
		arrived: a.at, started: s.now, user: a.user, step: -1,
		steps: s.scenario.Workload.draw(s.workRand, s.current()),
	}
	s.busy++
	s.window.started(s.busy)
	s.proceed(t)
}

// proceed takes a task to its next step.
func (s *simulation) proceed(t *task) {
	for {
		t.step++
		if int(t.step) == len(t.steps) {
			s.finish(t)
			return
		}
		switch next := t.steps[t.step]; {
		case next.at == nowhere:
			s.finish(t)
			return
		case next.at == commitLog:
			s.log.waiting = append(s.log.waiting, t)
			if !s.log.busy {
				s.flush()
			}
			return
		case next.work <= 0:
		case next.at == processors:
			s.processors.add(s.now, t, next.work)
			return
		default:
			s.backend.add(s.now, t, next.work)
			return
		}
	}
}

// flush takes between 0.8 and 1.2 of its usual time.
func (s *simulation) flush() {
	s.log.begin(s.now, (0.8+0.4*s.arrivalRand.Float64())*orOne(s.current().Backend))
}

// flushed releases a batch. The next one begins only when all of its tasks have
// continued, as a log writer wakes them all before it checks for more.
func (s *simulation) flushed() {
	batch := s.log.end()
	s.log.busy = true
	for _, t := range batch {
		s.proceed(t)
	}
	s.log.busy = false
	if len(s.log.waiting) > 0 {
		s.flush()
	}
}

func (s *simulation) finish(t *task) {
	s.result.Phases[s.phase].finished(s.now, t.arrived)
	if s.scenario.Sample > 0 {
		s.sample.sojourn.Record(duration(s.now - t.arrived))
	}
	if s.optimizer != nil {
		s.window.finished(s.now, t, s.queue.count > 0)
	}
	user := t.user
	s.busy--
	s.spare = append(s.spare, t)
	s.fill()
	if user < 0 {
		return
	}
	if user >= s.users {
		s.present[user] = false
		return
	}
	s.after(think.Seconds()*(0.5+s.arrivalRand.Float64()), userSends, user)
}
