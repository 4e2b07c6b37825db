package svgchart

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestAxes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := math.Pow(10, rapid.Float64Range(-6, 7).Draw(t, "most"))
		least := most * rapid.Float64Range(1e-3, 1).Draw(t, "least")
		for name, s := range map[string]Scale{"linear": Linear(most), "logarithmic": Logarithmic(least, most)} {
			if n := len(s.ticks); n < 2 || n > 16 {
				t.Fatalf("%s axis to %v has %d lines", name, most, n)
			}
			if a, b := s.place(least), s.place(most); !(a >= 0 && a <= b && b <= 1) || math.IsNaN(a) {
				t.Fatalf("%s axis: %v at %v, %v at %v", name, least, a, most, b)
			}
			if name == "linear" && s.place(most) < 0.5 {
				t.Fatalf("the axis to %v ends far above: %v", most, s.ticks)
			}
		}
	})
}

func TestLabelsStandApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const top, bottom = 100, 320
		var labels []Label
		for range rapid.IntRange(0, 14).Draw(t, "labels") {
			labels = append(labels, Label{Y: rapid.Float64Range(top, bottom).Draw(t, "y")})
		}
		got := spreadLabels(labels, top, bottom)
		for n, l := range got {
			if n > 0 && l.Y-got[n-1].Y < lineHeight-1e-9 {
				t.Fatalf("%v covers %v", l.Y, got[n-1].Y)
			}
			if math.IsNaN(l.Y) || l.Y < top-1e-9 || l.Y > bottom+1e-9 {
				t.Fatalf("%v is outside", l.Y)
			}
		}
	})
}
