package timeoutbench

import (
	"fmt"
	"math"
	"slices"

	"github.com/txmgr/txmgr/internal/svgchart"
)

// The picture has two rows of panels with a common scale, in pixels.
const (
	panelWidth, panelHeight = 400.0, 240.0
	panelLeft, panelTop     = 52.0, 34.0
	gutterX, gutterY        = 24.0, 58.0
	headHeight              = 72.0
	labelWidth              = 100.0 // room for the names right of the lines
)

// colours of the lines: bright enough on black, dark enough on white. Each line has a mark of its own too.
var colours = []string{"#3b82f6", "#e0662f", "#16a06f", "#b45fe0", "#ad8300", "#e0457b", "#0e9bb5", "#8a8f98", "#7a9b1e", "#a0724b", "#6a6ff0", "#d04f4f"}

// Picture draws the nanoseconds of an operation for the first load, by contender and size, as an SVG that can be read on a
// light and on a dark page. Contenders that are named in without are left out.
func (r Report) Picture(without ...string) string {
	panels := []struct{ title, metric string }{
		{"schedule", Add},
		{"cancel one at random", Cancel},
		{"schedule and cancel, 8 goroutines, one mutex", Churn(8, true)},
		{"end, one tick after the other", Expire},
	}
	const width = 2*(panelLeft+panelWidth+labelWidth) + gutterX
	const height = headHeight + 2*(panelTop+panelHeight+gutterY) - 20
	c := svgchart.New(int(width), int(height), "Nanoseconds of a processor for one operation",
		fmt.Sprintf("timeouts %s, by pending entries; medians of %d; both axes are logarithmic; lower is better", loadText(r.Loads[0]), r.Rounds))
	var names []string
	for _, name := range r.Contenders {
		if !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	axis := r.axis(names, panels[0].metric, panels[1].metric, panels[2].metric, panels[3].metric)
	for i, p := range panels {
		at := svgchart.Panel{
			Canvas: c, X: panelLeft + float64(i%2)*(panelLeft+panelWidth+labelWidth+gutterX), Y: headHeight + panelTop + float64(i/2)*(panelTop+panelHeight+gutterY),
			Width: panelWidth, Height: panelHeight, Axis: axis,
		}
		at.Frame(p.title)
		r.lines(at, names, p.metric)
	}
	return c.Done()
}

func loadText(load string) string {
	switch load {
	case "uniform":
		return "of 1 to 600 s, uniformly"
	case "same":
		return "of 60 s, all alike"
	}
	return load
}

// axis encloses all figures.
func (r Report) axis(names []string, metrics ...string) svgchart.Scale {
	low, high := math.Inf(1), 1.0
	for _, c := range r.Cells {
		if c.Load == r.Loads[0] && slices.Contains(metrics, c.Metric) && slices.Contains(names, c.Contender) {
			low, high = min(low, c.Median), max(high, c.Median)
		}
	}
	return svgchart.Logarithmic(min(max(low, 0.1), high), high)
}

func (r Report) lines(p svgchart.Panel, names []string, metric string) {
	across := r.columns(p.X)
	for n, size := range r.Sizes {
		p.Text("tick", "middle", across[n], p.Y+panelHeight+18, Count(size))
	}
	var labels []svgchart.Label
	for n, name := range names {
		var line []svgchart.Point
		for k, size := range r.Sizes {
			if c, ok := r.Find(Task{name, size, r.Loads[0]}, metric); ok {
				line = append(line, svgchart.Point{X: across[k], Y: p.Up(c.Median)})
			}
		}
		if len(line) == 0 {
			continue
		}
		colour := colours[n%len(colours)]
		p.Line("line", colour, line)
		mark(p, line, colour, n)
		labels = append(labels, svgchart.Label{Y: line[len(line)-1].Y, Text: name, Colour: colour})
	}
	p.Labels(labels)
}

// columns are the places of the sizes, as far apart as their logarithms.
func (r Report) columns(x float64) []float64 {
	first, last := math.Log10(float64(r.Sizes[0])), math.Log10(float64(r.Sizes[len(r.Sizes)-1]))
	out := make([]float64, len(r.Sizes))
	for n, size := range r.Sizes {
		share := 0.5
		if last > first {
			share = 0.06 + 0.88*(math.Log10(float64(size))-first)/(last-first)
		}
		out[n] = x + share*panelWidth
	}
	return out
}

// mark marks the points of a line, so that lines are told apart without their colours.
func mark(p svgchart.Panel, line []svgchart.Point, colour string, n int) {
	for _, s := range line {
		switch n % 3 {
		case 0:
			fmt.Fprintf(p, `<circle fill="%s" cx="%.1f" cy="%.1f" r="4"/>`, colour, s.X, s.Y)
		case 1:
			fmt.Fprintf(p, `<rect fill="%s" x="%.1f" y="%.1f" width="8" height="8"/>`, colour, s.X-4, s.Y-4)
		case 2:
			fmt.Fprintf(p, `<path fill="%s" d="M%.1f %.1fl5 9h-10z"/>`, colour, s.X, s.Y-5)
		}
	}
	p.WriteByte('\n')
}
