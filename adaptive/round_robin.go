package adaptive

import "fmt"

// WeightedRoundRobin is a smooth weighted round robin over classes of work: of those that
// have work, each gets as many turns as its weight in every round, spread evenly. With weights
// 8, 3 and 1 the first has two of three turns while all have work, and the last is
// never left out. A class without work saves nothing up. Not safe for concurrent use.
type WeightedRoundRobin struct {
	weights []int
	credit  []int
}

// NewWeightedRoundRobin takes the weight of each class. It wraps [ErrConfig] unless there
// is at least one and all are from 1 to 1,000,000.
func NewWeightedRoundRobin(weights ...int) (*WeightedRoundRobin, error) {
	if len(weights) == 0 {
		return nil, fmt.Errorf("%w: turns of no class", ErrConfig)
	}
	for i, w := range weights {
		if w < 1 || w > 1_000_000 {
			return nil, fmt.Errorf("%w: a weight of %d for class %d, which must be from 1 to 1,000,000", ErrConfig, w, i)
		}
	}
	return &WeightedRoundRobin{weights: append([]int(nil), weights...), credit: make([]int, len(weights))}, nil
}

// Next returns the next class, of those for which ready reports that they have
// work; false if none has.
func (t *WeightedRoundRobin) Next(ready func(class int) bool) (class int, ok bool) {
	class, total := -1, 0
	for i, w := range t.weights {
		if !ready(i) {
			t.credit[i] = 0
			continue
		}
		total += w
		t.credit[i] += w
		if class < 0 || t.credit[i] > t.credit[class] {
			class = i
		}
	}
	if class < 0 {
		return 0, false
	}
	t.credit[class] -= total
	return class, true
}
