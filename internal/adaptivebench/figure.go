package adaptivebench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/txmgr/txmgr/internal/svgchart"
)

// A picture has two rows of panels, in pixels.
const (
	panelWidth, panelHeight = 420.0, 220.0
	panelLeft, panelTop     = 64.0, 40.0
	panelRight, panelBelow  = 136.0, 34.0 // room for names and for times
	headHeight              = 62.0
)

// quantity is what a panel shows.
type quantity struct {
	title string
	log   bool
	of    func(Figures) float64
}

var quantities = []quantity{
	{"requests in a second", false, func(f Figures) float64 { return f.Rate }},
	{"mean latency, ms", true, func(f Figures) float64 { return milliseconds(f.Mean) }},
	{"99th percentile of latencies, ms", true, func(f Figures) float64 { return milliseconds(f.P99) }},
}

// colours of the contenders: bright enough on black, dark enough on white. An
// optimizer has the same one in all pictures; fixed pools have paler ones.
var (
	colours = []string{"#3b82f6", "#e0662f", "#b45fe0", "#16a06f", "#0e9bb5", "#e0457b", "#6a6ff0"}
	muted   = []string{"#8a8f98", "#a0724b", "#ad8300", "#7a9b1e", "#5f8a8b", "#b0708f", "#7f86b8", "#a05050"}
)

// lineStyle is how a contender is drawn.
type lineStyle struct{ title, class, colour string }

// stylesOf returns the styles of the contenders of a group.
func stylesOf(group []Result) []lineStyle {
	styles, fixed := make([]lineStyle, len(group)), 0
	for i, r := range group {
		known := slices.Index(Optimizers(), r.Contender)
		if known < 0 { // one of several settings
			known = i % len(colours)
		}
		styles[i] = lineStyle{poolTitle(r.Contender), "line", colours[known]}
		if isFixed(r.Contender) {
			styles[i].class, styles[i].colour = "line fixed", muted[fixed%len(muted)]
			fixed++
		}
	}
	return styles
}

// poolTitle is the title of a contender in pictures.
func poolTitle(name string) string {
	if isFixed(name) {
		return "fixed " + name
	}
	return name
}

// isFixed reports whether a name is that of a pool of a fixed size.
func isFixed(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// OverTime draws what the dissertation draws of its experiments, for the results of one
// application and load: throughput, latencies and the size of the pool over time, as
// an SVG that can be read on a light and on a dark page.
func (r Report) OverTime(group []Result) string {
	panels := len(quantities) + 1
	if slices.ContainsFunc(group, func(x Result) bool { return len(x.Uses) > 0 }) {
		panels += len(uses)
	}
	const width = 2 * (panelLeft + panelWidth + panelRight)
	height := headHeight + float64((panels+1)/2)*(panelTop+panelHeight+panelBelow)
	c := svgchart.New(int(width), int(height), titleOf(group[0].Task), r.howOverTime())
	for i := range panels {
		p := panel{Panel: svgchart.Panel{
			Canvas: c, X: panelLeft + float64(i%2)*(panelLeft+panelWidth+panelRight), Y: headHeight + panelTop + float64(i/2)*(panelTop+panelHeight+panelBelow),
			Width: panelWidth, Height: panelHeight,
		}}
		switch {
		case i < len(quantities):
			p.metric(quantities[i], group)
		case i == len(quantities):
			p.sizes(group)
		default:
			p.use(uses[i-len(quantities)-1], group)
		}
		p.times(r.Time, group[0])
	}
	return c.Done()
}

// howOverTime is the explanation below the title.
func (r Report) howOverTime() string {
	how := fmt.Sprintf("over %s of the source's time, %s times shortened", clock(r.Time), figureOfSpeed(r.Speed))
	if r.Simulated {
		how = fmt.Sprintf("over %s of simulated time", clock(r.Time))
	}
	return how + "; latencies at the server, on logarithmic axes; dashed: fixed pools"
}

// figureOfSpeed formats a factor without needless digits.
func figureOfSpeed(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// titleOf is the title of a picture.
func titleOf(t Task) string {
	app, ok := appOf(t.App)
	if !ok {
		app.Title = t.App
	}
	title := fmt.Sprintf("%s, fixed load of %s", app.Title, usersWord(t.Users))
	if t.Load == VaryingLoad {
		title = fmt.Sprintf("%s, varying load of up to %d users", app.Title, t.Users)
	}
	if t.Optimizer != "" {
		title += ": " + t.Optimizer
	}
	return title
}

// panel is one of the diagrams of a picture.
type panel struct {
	svgchart.Panel
	labels []svgchart.Label
}

func (p *panel) metric(q quantity, group []Result) {
	least, most := math.Inf(1), 0.0
	for _, r := range group {
		for _, s := range r.Samples {
			if v := q.of(s.Figures); v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	p.Axis = svgchart.Linear(most)
	if q.log {
		p.Axis = svgchart.Logarithmic(min(least, most), most)
	}
	p.Frame(q.title)
	styles := stylesOf(group)
	for n, r := range group {
		var line []svgchart.Point
		last := -1.0
		for i, s := range r.Samples {
			v := q.of(s.Figures)
			if q.log && v == 0 { // no request ended: there is no latency
				line = p.stroke(styles[n], line)
				continue
			}
			last = p.Up(v)
			line = append(line, svgchart.Point{X: p.X + panelWidth*(float64(i)+0.5)/float64(len(r.Samples)), Y: last})
		}
		if last >= 0 {
			p.tag(styles[n], last)
		}
		p.stroke(styles[n], line)
	}
	p.Labels(p.labels)
}

// use draws the programs' use of the machine.
func (p *panel) use(q usageMetric, group []Result) {
	most := 0.0
	for _, r := range group {
		for _, u := range r.Uses {
			most = max(most, q.of(u))
		}
	}
	p.Axis = svgchart.Linear(most)
	p.Frame(q.title)
	styles := stylesOf(group)
	for n, r := range group {
		if len(r.Uses) == 0 {
			continue
		}
		end, from := r.Uses[len(r.Uses)-1].At, 0.0
		var line []svgchart.Point
		for _, u := range r.Uses {
			line = append(line, svgchart.Point{X: p.X + panelWidth*(from+u.At)/2/end, Y: p.Up(q.of(u))})
			from = u.At
		}
		p.tag(styles[n], line[len(line)-1].Y)
		p.stroke(styles[n], line)
	}
	p.Labels(p.labels)
}

// sizes draws the sizes of the pools: of those that an optimizer sized, if there are any.
func (p *panel) sizes(group []Result) {
	adaptive := 0
	for _, r := range group {
		if !isFixed(r.Contender) {
			adaptive++
		}
	}
	most := 1
	for _, r := range group {
		if adaptive == 0 || !isFixed(r.Contender) {
			most = max(most, r.Start)
			for _, c := range r.Resizes {
				most = max(most, c.Size)
			}
		}
	}
	p.Axis = svgchart.Linear(float64(most))
	p.Frame("size of the pool")
	styles := stylesOf(group)
	for n, r := range group {
		if adaptive > 0 && isFixed(r.Contender) || len(r.Samples) == 0 {
			continue
		}
		end, y := r.Samples[len(r.Samples)-1].At, p.Up(float64(r.Start))
		line := []svgchart.Point{{X: p.X, Y: y}}
		for _, c := range r.Resizes {
			x := p.X + panelWidth*min(c.At/end, 1)
			line = append(line, svgchart.Point{X: x, Y: y})
			y = p.Up(float64(c.Size))
			line = append(line, svgchart.Point{X: x, Y: y})
		}
		p.tag(styles[n], y)
		p.stroke(styles[n], append(line, svgchart.Point{X: p.X + panelWidth, Y: y}))
	}
	p.Labels(p.labels)
}

// stroke draws a line and returns an empty one.
func (p *panel) stroke(l lineStyle, line []svgchart.Point) []svgchart.Point {
	if len(line) > 0 {
		p.Line(l.class, l.colour, line)
	}
	return nil
}

func (p *panel) tag(l lineStyle, y float64) {
	p.labels = append(p.labels, svgchart.Label{Y: y, Text: l.title, Colour: l.colour})
}

// times writes the dissertation's time below a panel, and the number of users above it if it
// varies.
func (p *panel) times(total time.Duration, r Result) {
	const parts = 5
	for k := range parts + 1 {
		x := p.X + panelWidth*float64(k)/parts
		p.Grid(x, p.Y, x, p.Y+panelHeight)
		p.Text("tick", "middle", x, p.Y+panelHeight+17, clock(total*time.Duration(k)/parts))
	}
	if r.Load != VaryingLoad {
		return
	}
	at := p.X
	for _, part := range r.Parts {
		p.Text("tick", "middle", at+panelWidth*part.Part/2, p.Y-5, usersWord(part.Users))
		at += panelWidth * part.Part
	}
}

func usersWord(n int) string {
	if n == 1 {
		return "1 user"
	}
	return fmt.Sprintf("%d users", n)
}
