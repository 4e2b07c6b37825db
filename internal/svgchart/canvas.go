// Package svgchart draws panels of lines as an SVG that can be read on a light and on a dark page.
// Coordinates are pixels.
package svgchart

import (
	"fmt"
	"strings"
)

// Canvas is an SVG that is being drawn. What has no method is written to it as text.
type Canvas struct{ strings.Builder }

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

// New begins an SVG with a title and, below it, a note.
func New(width, height int, title, note string) *Canvas {
	c := &Canvas{}
	fmt.Fprintf(c, canvasHead, width, height, width, height, escape(title))
	c.Text("title", "start", 20, 28, title)
	c.Text("note", "start", 20, 48, note)
	return c
}

// Done ends the drawing and returns it.
func (c *Canvas) Done() string {
	c.WriteString("</svg>\n")
	return c.String()
}

// Text writes a text of class title, panel, note, tick or none; anchor is start, middle or end.
func (c *Canvas) Text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(c, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, anchor, x, y, escape(s))
}

// Grid draws a line of a grid.
func (c *Canvas) Grid(x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", x1, y1, x2, y2)
}

// Point is a point of a line.
type Point struct{ X, Y float64 }

// Line draws a line; class is "line", or "line fixed" for a dashed one.
func (c *Canvas) Line(class, colour string, line []Point) {
	points := make([]string, len(line))
	for i, s := range line {
		points[i] = fmt.Sprintf("%.1f,%.1f", s.X, s.Y)
	}
	fmt.Fprintf(c, `<polyline class="%s" stroke="%s" points="%s"/>`+"\n", class, colour, strings.Join(points, " "))
}

// Panel is a rectangle with an axis at its left; X and Y are its upper left corner.
type Panel struct {
	*Canvas
	X, Y, Width, Height float64
	Axis                Scale
}

// Frame writes the title and the axis.
func (p Panel) Frame(title string) {
	p.Text("panel", "start", p.X, p.Y-22, title)
	for _, v := range p.Axis.ticks {
		y := p.Up(v)
		p.Grid(p.X, y, p.X+p.Width, y)
		p.Text("tick", "end", p.X-6, y+4, tickName(v))
	}
}

// Up returns the vertical position of a value.
func (p Panel) Up(v float64) float64 { return p.Y + p.Height*(1-p.Axis.place(v)) }

// Labels writes labels at the right of the panel.
func (p Panel) Labels(labels []Label) {
	for _, l := range spreadLabels(labels, p.Y, p.Y+p.Height) {
		fmt.Fprintf(p, `<text style="fill:%s" x="%.1f" y="%.1f">%s</text>`+"\n", l.Colour, p.X+p.Width+8, l.Y+4, escape(l.Text))
	}
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
