package rig

import (
	"cmp"
	"slices"
)

// Median is the middle of the values, the upper one of two; zero if there are none.
func Median[T cmp.Ordered](values []T) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Of picks one figure from each sample.
func Of[S any, T any](samples []S, pick func(S) T) []T {
	out := make([]T, len(samples))
	for i, s := range samples {
		out[i] = pick(s)
	}
	return out
}
