package adaptivesim

// heap is a binary heap of values by moment, the earliest first. Values of the same
// moment come out in an order that depends on nothing but the calls before.
type heap[T any] []entry[T]

type entry[T any] struct {
	at    float64
	value T
}

func (h *heap[T]) push(at float64, v T) {
	s := append(*h, entry[T]{at, v})
	*h = s
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if s[up].at <= at {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = entry[T]{at, v}
}

func (h *heap[T]) pop() entry[T] {
	s := *h
	first, last := s[0], s[len(s)-1]
	s[len(s)-1] = entry[T]{}
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].at < s[down].at {
			down++
		}
		if last.at <= s[down].at {
			break
		}
		s[i] = s[down]
		i = down
	}
	s[i] = last
	return first
}
