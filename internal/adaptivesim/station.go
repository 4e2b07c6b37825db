package adaptivesim

import "math"

// station serves all its tasks at once, each as fast as the others: egalitarian
// processor sharing. The processors are one, the backend is another.
//
// A task that had been present from the beginning would have got served of work. A task that
// arrives with w to do is done when served has grown by w, so that however many
// arrive and leave, only the first end and the rate of its approach change.
type station struct {
	shares []float64 // work a second that each of n tasks gets
	speed  float64   // factor of the noise
	frozen bool

	tasks  heap[*task] // by what served will be at their end
	served float64
	since  float64 // moment of served
	rate   float64 // at which it grows
	next   float64 // moment at which the first task is done; infinite without one
}

// newStation makes a station that works for up to slots tasks at full speed, and
// moment at which the first task is done; infinite without one
// number of tasks that come.
func newStation(slots int, loss float64, most int) station {
	shares := make([]float64, most+1)
	for n := 1; n <= most; n++ {
		total := float64(n)
		if n > slots {
			total = float64(slots) / (1 + loss*float64(n-slots))
		}
		shares[n] = total / float64(n)
	}
	return station{shares: shares, speed: 1, next: math.Inf(1)}
}

func (s *station) add(now float64, t *task, work float64) {
	s.serve(now)
	s.tasks.push(s.served+work, t)
	s.plan()
}

// take removes and returns the task that is done now.
func (s *station) take(now float64) *task {
	s.serve(now)
	first := s.tasks.pop()
	s.served = max(s.served, first.at)
	if len(s.tasks) == 0 {
		s.served = 0
	}
	s.plan()
	return first.value
}

func (s *station) set(now, speed float64, frozen bool) {
	s.serve(now)
	s.speed, s.frozen = speed, frozen
	s.plan()
}

func (s *station) serve(now float64) {
	s.served += s.rate * (now - s.since)
	s.since = now
}

func (s *station) plan() {
	if len(s.tasks) == 0 || s.frozen {
		s.rate, s.next = 0, math.Inf(1)
		return
	}
	s.rate = s.shares[len(s.tasks)] * s.speed
	s.next = s.since + max(0, s.tasks[0].at-s.served)/s.rate
}

// groupLog makes the writes of many tasks durable at once: one flush at a time, and all that
// have arrived meanwhile share the next.
type groupLog struct {
	flush, row float64 // seconds for each flush, and for each of its tasks
	speed      float64 // factor of the noise

	waiting, batch []*task
	busy           bool
	next           float64 // moment at which the flush is done; infinite without one
}

// begin flushes all waiting tasks; factor is by how much this flush is slower than usual.
func (l *groupLog) begin(now, factor float64) {
	l.batch, l.waiting = l.waiting, l.batch[:0]
	l.busy = true
	l.next = now + (l.flush*factor+l.row*float64(len(l.batch)))/l.speed
}

func (l *groupLog) end() []*task {
	l.busy, l.next = false, math.Inf(1)
	return l.batch
}
