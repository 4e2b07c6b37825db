package rig

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Goal is a goal for a figure, and the measured value.
type Goal struct {
	Name   string  `json:"name"`
	Want   string  `json:"want"`
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Met    bool    `json:"met"`
}

// AtLeast compares the median of values, one of each round, with a minimum; without values the goal
// is missed.
func AtLeast(name string, want float64, values []float64) Goal {
	g := goalOf(name, values)
	g.Want, g.Met = fmt.Sprintf("≥ %.12g", want), len(values) > 0 && g.Median >= want
	return g
}

// AtMost is the same with a maximum.
func AtMost(name string, want float64, values []float64) Goal {
	g := goalOf(name, values)
	g.Want, g.Met = fmt.Sprintf("≤ %.12g", want), len(values) > 0 && g.Median <= want
	return g
}

func goalOf(name string, values []float64) Goal {
	g := Goal{Name: name, Median: Median(values)}
	if len(values) > 0 {
		g.Least, g.Most = slices.Min(values), slices.Max(values)
	}
	return g
}

// PrintGoals writes the goals as a table.
func PrintGoals(w io.Writer, goals []Goal) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "goal\twant\tmedian\tleast\tmost\t")
	for _, g := range goals {
		met := "met"
		if !g.Met {
			met = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", g.Name, g.Want, figure(g.Median), figure(g.Least), figure(g.Most), met)
	}
	return t.Flush()
}

// figure formats a number of any size with a suitable precision.
func figure(v float64) string {
	if v == float64(int64(v)) || v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
