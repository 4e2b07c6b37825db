package adaptivesim

// arrival is a task that has been submitted. Its contents are drawn when it
// starts: tasks start in the order of their submission, so that the n-th task is the
// same whatever the limit.
type arrival struct {
	at   float64
	user int32 // its owner; -1 for none
}

// queue is first in, first out, in a ring that grows.
type queue struct {
	ring  []arrival
	first int
	count int
}

func (q *queue) push(a arrival) {
	if q.count == len(q.ring) {
		grown := make([]arrival, max(64, 2*len(q.ring)))
		n := copy(grown, q.ring[q.first:])
		copy(grown[n:], q.ring[:q.first])
		q.ring, q.first = grown, 0
	}
	q.ring[(q.first+q.count)&(len(q.ring)-1)] = a
	q.count++
}

func (q *queue) pop() arrival {
	a := q.ring[q.first]
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.count--
	return a
}

// each visits the waiting tasks, the longest first.
func (q *queue) each(visit func(arrival)) {
	for i := range q.count {
		visit(q.ring[(q.first+i)&(len(q.ring)-1)])
	}
}
