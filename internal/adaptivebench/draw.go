package adaptivebench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// colours of the contenders: bright enough on black, dark enough on white. An
// optimizer has the same one in all pictures; fixed pools have paler ones.
var (
	colours = []string{"#3b82f6", "#e0662f", "#b45fe0", "#16a06f", "#0e9bb5", "#e0457b", "#6a6ff0"}
	muted   = []string{"#8a8f98", "#a0724b", "#ad8300", "#7a9b1e", "#5f8a8b", "#b0708f", "#7f86b8", "#a05050"}
)

// canvas is an SVG that is being drawn. Coordinates are pixels.
type canvas struct{ strings.Builder }

const canvasHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>
.page { fill: #ffffff; }
svg text { font: 12px system-ui, sans-serif; fill: #24292f; }
svg .title { font-size: 17px; font-weight: 600; }
svg .panel { font-size: 13px; font-weight: 600; }
svg .note, svg .tick { fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.fixed { stroke-width: 1.2; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; }
  svg text { fill: #e6edf3; }
  svg .note, svg .tick { fill: #9aa4af; }
  .grid { stroke: #3d444d; }
}
</style>
<rect class="page" width="100%%" height="100%%" rx="8"/>
`

func newCanvas(width, height int, title, note string) *canvas {
	c := &canvas{}
	fmt.Fprintf(c, canvasHead, width, height, width, height, escape(title))
	c.text("title", "start", 20, 28, title)
	c.text("note", "start", 20, 48, note)
	return c
}

// done ends the drawing and returns it.
func (c *canvas) done() string {
	c.WriteString("</svg>\n")
	return c.String()
}

// text writes something; anchor is start, middle or end.
func (c *canvas) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(c, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, anchor, x, y, escape(s))
}

func (c *canvas) coloured(colour string, x, y float64, s string) {
	fmt.Fprintf(c, `<text style="fill:%s" x="%.1f" y="%.1f">%s</text>`+"\n", colour, x, y, escape(s))
}

func (c *canvas) grid(x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", x1, y1, x2, y2)
}

// point is a point of a line.
type point struct{ x, y float64 }

func (c *canvas) line(class, colour string, line []point) {
	points := make([]string, len(line))
	for i, s := range line {
		points[i] = fmt.Sprintf("%.1f,%.1f", s.x, s.y)
	}
	fmt.Fprintf(c, `<polyline class="%s" stroke="%s" points="%s"/>`+"\n", class, colour, strings.Join(points, " "))
}

// scale is a vertical axis: where a value is, from 0 at the bottom to 1 at the top.
type scale struct {
	place func(float64) float64
	ticks []float64
	name  func(float64) string
}

// linear is an axis from zero to a round number that is not below most, in four to
// ten steps.
func linear(most float64, name func(float64) string) scale {
	most = max(most, 1e-9)
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch {
	case most/step < 2:
		step /= 5
	case most/step < 4:
		step /= 2
	}
	s := scale{name: name}
	steps := math.Ceil(most/step - 1e-9)
	for k := 0.0; k <= steps; k++ {
		s.ticks = append(s.ticks, k*step)
	}
	s.place = func(v float64) float64 { return min(max(v/(steps*step), 0), 1) }
	return s
}

// logarithmic is an axis from one power of ten to another, with all values between them.
func logarithmic(least, most float64, name func(float64) string) scale {
	least, most = max(least, 1e-3), max(most, 1e-3)
	low := math.Floor(math.Log10(least) + 1e-9)
	high := max(math.Ceil(math.Log10(most)-1e-9), low+1)
	s := scale{name: name}
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

// milliseconds is a latency in the unit of the axes.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Number writes a number with about three digits.
func Number(v float64) string {
	switch {
	case v >= 99.5:
		return grouped(int64(math.Round(v)))
	case v >= 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v == 0:
		return "0"
	case v >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// tickName writes a number of an axis.
func tickName(v float64) string {
	if v >= 1000 {
		return grouped(int64(math.Round(v)))
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// grouped is a number with commas between the thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clock formats a time of the dissertation as its pictures do.
func clock(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%d:%02d:%02d", d/time.Hour, d/time.Minute%60, d/time.Second%60)
	}
	return fmt.Sprintf("%02d:%02d", d/time.Minute, d/time.Second%60)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
