package timeoutbench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The picture has two rows of panels with a common scale, in pixels.
const (
	panelWidth, panelHeight = 400, 240
	panelLeft, panelTop     = 52, 34
	gutterX, gutterY        = 24, 58
	headHeight              = 72
	labelWidth              = 100 // room for the names right of the lines
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
	width := 2*(panelLeft+panelWidth+labelWidth) + gutterX
	height := headHeight + 2*(panelTop+panelHeight+gutterY) - 20
	var b strings.Builder
	fmt.Fprintf(&b, pictureHead, width, height, width, height)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="28">Nanoseconds of a processor for one operation</text>`+"\n", panelLeft)
	fmt.Fprintf(&b, `<text class="note" x="%d" y="48">timeouts %s, by pending entries; medians of %d; both axes are logarithmic; lower is better</text>`+"\n",
		panelLeft, escape(loadText(r.Loads[0])), r.Rounds)
	var names []string
	for _, name := range r.Contenders {
		if !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	low, high := r.extremes(names, panels[0].metric, panels[1].metric, panels[2].metric, panels[3].metric)
	for i, p := range panels {
		x := panelLeft + i%2*(panelLeft+panelWidth+labelWidth+gutterX)
		y := headHeight + panelTop + i/2*(panelTop+panelHeight+gutterY)
		r.panel(&b, names, p.title, p.metric, x, y, low, high)
	}
	b.WriteString("</svg>\n")
	return b.String()
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

const pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="Nanoseconds of a processor for one operation, by structure and number of pending entries">
<style>
.page { fill: #ffffff; }
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 17px; font-weight: 600; }
.panel { font-size: 13px; font-weight: 600; }
.note, .tick { fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.line { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; }
  text { fill: #e6edf3; }
  .note, .tick { fill: #9aa4af; }
  .grid { stroke: #3d444d; }
}
</style>
<rect class="page" width="100%%" height="100%%" rx="8"/>
`

// extremes are powers of ten that enclose all figures.
func (r Report) extremes(names []string, metrics ...string) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range r.Cells {
		if c.Load == r.Loads[0] && slices.Contains(metrics, c.Metric) && slices.Contains(names, c.Contender) {
			low, high = min(low, c.Median), max(high, c.Median)
		}
	}
	if low > high {
		return 1, 10
	}
	low = math.Pow(10, math.Floor(math.Log10(max(low, 0.1))))
	high = math.Pow(10, math.Ceil(math.Log10(max(high, 1))))
	return low, max(high, 10*low)
}

// point is a point of a line.
type point struct{ x, y float64 }

func (r Report) panel(b *strings.Builder, names []string, title, metric string, x, y int, low, high float64) {
	fmt.Fprintf(b, `<text class="panel" x="%d" y="%d">%s</text>`+"\n", x, y-12, escape(title))
	up := func(v float64) float64 {
		return float64(y+panelHeight) - float64(panelHeight)*math.Log10(max(v, low)/low)/math.Log10(high/low)
	}
	for v := low; v <= high*1.01; v *= 10 {
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text class="tick" text-anchor="end" x="%d" y="%.1f">%s</text>`+"\n",
			x, up(v), x+panelWidth, up(v), x-6, up(v)+4, thousands(v))
	}
	across := r.columns(x)
	for n, size := range r.Sizes {
		fmt.Fprintf(b, `<text class="tick" text-anchor="middle" x="%.1f" y="%d">%s</text>`+"\n", across[n], y+panelHeight+18, Count(size))
	}
	var labels []label
	for n, name := range names {
		var line []point
		for k, size := range r.Sizes {
			if c, ok := r.Find(Task{name, size, r.Loads[0]}, metric); ok {
				line = append(line, point{across[k], up(c.Median)})
			}
		}
		if len(line) == 0 {
			continue
		}
		colour := colours[n%len(colours)]
		draw(b, line, colour, n)
		labels = append(labels, label{line[len(line)-1].y, name, colour})
	}
	for _, l := range spreadLabels(labels, float64(y), float64(y+panelHeight)) {
		fmt.Fprintf(b, `<text x="%d" y="%.1f" style="fill:%s">%s</text>`+"\n", x+panelWidth+6, l.y+4, l.colour, escape(l.text))
	}
}

// columns are the places of the sizes, as far apart as their logarithms.
func (r Report) columns(x int) []float64 {
	first, last := math.Log10(float64(r.Sizes[0])), math.Log10(float64(r.Sizes[len(r.Sizes)-1]))
	out := make([]float64, len(r.Sizes))
	for n, size := range r.Sizes {
		share := 0.5
		if last > first {
			share = 0.06 + 0.88*(math.Log10(float64(size))-first)/(last-first)
		}
		out[n] = float64(x) + share*panelWidth
	}
	return out
}

func draw(b *strings.Builder, line []point, colour string, n int) {
	var points []string
	for _, s := range line {
		points = append(points, fmt.Sprintf("%.1f,%.1f", s.x, s.y))
	}
	fmt.Fprintf(b, `<polyline class="line" stroke="%s" points="%s"/>`+"\n", colour, strings.Join(points, " "))
	for _, s := range line {
		switch n % 3 {
		case 0:
			fmt.Fprintf(b, `<circle fill="%s" cx="%.1f" cy="%.1f" r="4"/>`, colour, s.x, s.y)
		case 1:
			fmt.Fprintf(b, `<rect fill="%s" x="%.1f" y="%.1f" width="8" height="8"/>`, colour, s.x-4, s.y-4)
		case 2:
			fmt.Fprintf(b, `<path fill="%s" d="M%.1f %.1fl5 9h-10z"/>`, colour, s.x, s.y-5)
		}
	}
	b.WriteByte('\n')
}

// label stands right of the end of a line.
type label struct {
	y            float64
	text, colour string
}

func thousands(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f,000", v/1000)
	}
	return fmt.Sprintf("%g", math.Round(v*10)/10)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
