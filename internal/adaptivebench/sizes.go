package adaptivebench

import "time"

// Resize is a change of a pool's size.
type Resize struct {
	// At is when, in seconds of the dissertation's time.
	At   float64 `json:"at_seconds"`
	Size int     `json:"size"`
	Why  string  `json:"why"`

	at time.Duration // since the pool was made, then since the load began
}

// ResizeAt is a change in an experiment that is not shortened.
func ResizeAt(at time.Duration, size int, why string) Resize {
	return Resize{At: at.Seconds(), Size: size, Why: why, at: at}
}

// Sizes are the sizes of a pool over time: the size to begin with, and the changes in their
// order, whose times are of the same clock as those of the queries.
type Sizes struct {
	Start   int
	Changes []Resize
}

// each visits the sizes between two moments, with the time for which each was in force.
func (s Sizes) each(from, to time.Duration, visit func(size int, from, to time.Duration)) {
	size, at := s.Start, from
	for _, c := range s.Changes {
		if c.at >= to {
			break
		}
		if c.at > at {
			visit(size, at, c.at)
			at = c.at
		}
		size = c.Size
	}
	if at < to {
		visit(size, at, to)
	}
}

// Mean is the mean size between two moments; 0 if there is no time between them.
func (s Sizes) Mean(from, to time.Duration) float64 {
	if to <= from {
		return 0
	}
	sum := 0.0
	s.each(from, to, func(size int, from, to time.Duration) { sum += float64(size) * float64(to-from) })
	return sum / float64(to-from)
}

// Rest is the size that was in force for the longest time between two moments, the
// first of several; scale is how many seconds of the dissertation one of them stands for.
func (s Sizes) Rest(from, to time.Duration, scale float64) Rest {
	total, first := map[int]time.Duration{}, map[int]time.Duration{}
	var order []int
	s.each(from, to, func(size int, begins, ends time.Duration) {
		if total[size] == 0 {
			order, first[size] = append(order, size), begins-from
		}
		total[size] += ends - begins
	})
	var r Rest
	var longest time.Duration
	for _, size := range order {
		if total[size] > longest {
			longest = total[size]
			r = Rest{At: size, For: float64(longest) / float64(to-from), After: first[size].Seconds() * scale}
		}
	}
	return r
}

// Last is the size at the end.
func (s Sizes) Last() int {
	if len(s.Changes) == 0 {
		return s.Start
	}
	return s.Changes[len(s.Changes)-1].Size
}
