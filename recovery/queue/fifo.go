package queue

// fifoChunk is how many elements a FIFO allocates at once: enough to make links
// cheap, few enough for a thousand nearly empty queues, and just under a size
// class of the allocator for ids and for items.
const fifoChunk = 62

// FIFO is a queue in chunks: it never copies, and gives memory back as it
// drains. The zero FIFO is empty.
type FIFO[T any] struct {
	head, tail *chunk[T]
	first      int // index of the first element in head
	last       int // index behind the last element in tail
	n          int
}

type chunk[T any] struct {
	next  *chunk[T]
	items [fifoChunk]T
}

// Len is the number of elements.
func (q *FIFO[T]) Len() int { return q.n }

// Push adds an element at the end.
func (q *FIFO[T]) Push(v T) {
	switch {
	case q.tail == nil:
		q.head = &chunk[T]{}
		q.tail, q.first, q.last = q.head, 0, 0
	case q.last == fifoChunk:
		q.tail.next = &chunk[T]{}
		q.tail, q.last = q.tail.next, 0
	}
	q.tail.items[q.last] = v
	q.last++
	q.n++
}

// Peek gives the first element; the queue must not be empty.
func (q *FIFO[T]) Peek() T { return q.head.items[q.first] }

// Pop takes the first element; the queue must not be empty.
func (q *FIFO[T]) Pop() T {
	var zero T
	v := q.head.items[q.first]
	q.head.items[q.first] = zero
	q.first++
	q.n--
	switch {
	case q.n == 0:
		q.head, q.first, q.last = q.tail, 0, 0 // keep one chunk for the next push
	case q.first == fifoChunk:
		q.head, q.first = q.head.next, 0
	}
	return v
}
