package adaptivebench

import (
	"fmt"

	"github.com/txmgr/txmgr/internal/svgchart"
)

// The bars of a picture, in pixels.
const (
	barLength, barHeight = 190.0, 14.0
	barStep              = 22.0
	barRoom              = 70.0 // for the figure behind a bar
	barNames             = 160.0
)

// Bars draws the figures of the whole time side by side, for the results of one
// application and load, as an SVG.
func (r Report) Bars(group []Result) string {
	width := barNames + float64(len(quantities))*(barLength+barRoom)
	height := headHeight + panelTop + barStep*float64(len(group)) + 10
	c := svgchart.New(int(width), int(height), titleOf(group[0].Task), "of the whole time, what an optimizer had to learn included; latencies at the server")
	top := headHeight + panelTop - 16
	styles := stylesOf(group)
	for n := range group {
		c.Text("", "end", barNames-8, top+barStep*float64(n)+barHeight-3, styles[n].title)
	}
	for i, q := range quantities {
		left := barNames + float64(i)*(barLength+barRoom)
		c.Text("panel", "start", left, top-12, q.title)
		most := 0.0
		for _, x := range group {
			most = max(most, q.of(x.Figures))
		}
		for n, x := range group {
			v, y := q.of(x.Figures), top+barStep*float64(n)
			length := 0.0
			if most > 0 {
				length = barLength * v / most
			}
			fmt.Fprintf(c, `<rect class="bar" fill="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", styles[n].colour, left, y, max(length, 0.5), barHeight)
			c.Text("tick", "start", left+length+5, y+barHeight-3, Number(v))
		}
	}
	return c.Done()
}
