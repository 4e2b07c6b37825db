package svgchart

import (
	"math"
	"strconv"
)

// Scale is a vertical axis: where a value is, from 0 at the bottom to 1 at the top.
type Scale struct {
	place func(float64) float64
	ticks []float64
}

// Linear is an axis from zero to a round number that is not below most, in four to
// ten steps.
func Linear(most float64) Scale {
	most = max(most, 1e-9)
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch {
	case most/step < 2:
		step /= 5
	case most/step < 4:
		step /= 2
	}
	var s Scale
	steps := math.Ceil(most/step - 1e-9)
	for k := 0.0; k <= steps; k++ {
		s.ticks = append(s.ticks, k*step)
	}
	s.place = func(v float64) float64 { return min(max(v/(steps*step), 0), 1) }
	return s
}

// Logarithmic is an axis from one power of ten to another, with all values between them.
func Logarithmic(least, most float64) Scale {
	least, most = max(least, 1e-3), max(most, 1e-3)
	low := math.Floor(math.Log10(least) + 1e-9)
	high := max(math.Ceil(math.Log10(most)-1e-9), low+1)
	var s Scale
	for k := low; k <= high; k++ {
		s.ticks = append(s.ticks, math.Pow(10, k))
		if high-low <= 2 && k < high {
			s.ticks = append(s.ticks, 2*math.Pow(10, k), 5*math.Pow(10, k))
		}
	}
	s.place = func(v float64) float64 {
		return min(max((math.Log10(max(v, 1e-12))-low)/(high-low), 0), 1)
	}
	return s
}

// tickName writes a number of an axis.
func tickName(v float64) string {
	if v >= 1000 {
		return Grouped(int64(math.Round(v)))
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// Grouped is a number with commas between the thousands.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
