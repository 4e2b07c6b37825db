package adaptivebench

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// page is the report as HTML: one file without references to others.
var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"ms":     func(d time.Duration) string { return Latency(d) },
	"number": Number,
	"rest":   RestText,
	"pool":   poolTitle,
	"clock":  func(seconds float64) string { return clock(time.Duration(seconds * float64(time.Second))) },
	"fixed":  isFixed,
}).Parse(pageText))

const pageText = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Adaptive pools, measured</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1260px; padding: 0 1rem; color: #24292f; background: #f6f8fa; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 3rem; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: right; padding: .2rem .8rem .2rem 0; }
th:first-child, td:first-child { text-align: left; }
th { border-bottom: 1px solid #59636e; }
dt { float: left; clear: left; width: 11rem; color: #59636e; }
dd { margin-left: 11rem; }
summary { cursor: pointer; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #010409; } dt { color: #9aa4af; } }
</style>
</head>
<body>
<h1>Adaptive pools, measured</h1>
<p>An HTTP server runs every request on a pool of workers. How many workers should there be? Pools of a fixed size are
compared with pools that an optimizer sizes while they work, on the applications and loads of the dissertation that three of
the optimizers are from. The optimizers begin with one worker.</p>
<dl>
{{range .Conditions}}<dt>{{.Name}}</dt><dd>{{.Value}}</dd>
{{end}}</dl>
{{with .Missing}}<p><strong>{{.}}</strong></p>
{{end}}{{range .Groups}}<h2>{{.Title}}</h2>
<p>{{.About}}</p>
{{.OverTime}}{{.Bars}}<table>
<tr><th>pool</th><th>requests/s</th><th>mean</th><th>p99</th><th>p99 at users</th><th>mean size</th><th>last size</th><th>rests at</th><th>resizes</th><th>requests a window</th>{{range .Parts}}<th>{{.}}</th>{{end}}</tr>
{{range .Results}}<tr><td>{{pool .Contender}}</td><td>{{number .Rate}}</td><td>{{ms .Mean}}</td><td>{{ms .P99}}</td><td>{{ms .UserP99}}</td><td>{{number .Size}}</td><td>{{.Last}}</td><td>{{rest .Rest}}</td><td>{{len .Resizes}}</td><td>{{number .PerWindow}}</td>{{range .Parts}}<td>{{number .Rate}}/s</td>{{end}}</tr>
{{end}}</table>
{{range .Results}}{{if .Resizes}}<details><summary>{{len .Resizes}} decisions of {{.Contender}}</summary>
<table><tr><th>time</th><th>size</th><th>why</th></tr>
{{range .Resizes}}<tr><td>{{clock .At}}</td><td>{{.Size}}</td><td style="text-align: left">{{.Why}}</td></tr>
{{end}}</table></details>
{{end}}{{end}}{{end}}</body>
</html>
`

// condition is one line of the measurement's conditions.
type condition struct{ Name, Value string }

// groupView is the results of one application and load on the page.
type groupView struct {
	Title, About   string
	OverTime, Bars template.HTML
	Parts          []string
	Results        []Result
}

// Page is the report as one HTML file, with its pictures, without references to others.
func (r Report) Page() (string, error) {
	view := struct {
		Conditions []condition
		Missing    string
		Groups     []groupView
	}{Conditions: r.conditions()}
	if n := len(r.Results); n < r.Planned {
		view.Missing = fmt.Sprintf("The run ended early: of %d experiments %d are here.", r.Planned, n)
	}
	for _, g := range r.Groups() {
		app, _ := appOf(g[0].App)
		v := groupView{
			Title: titleOf(g[0].Task), About: "Each request: " + app.About + ".", Results: g,
			OverTime: template.HTML(r.OverTime(g)), Bars: template.HTML(r.Bars(g)), // their texts are escaped there
		}
		for _, p := range g[0].Parts {
			name := p.Name
			if g[0].Load == VaryingLoad {
				name = usersWord(p.Users)
			}
			v.Parts = append(v.Parts, name)
		}
		view.Groups = append(view.Groups, v)
	}
	var b strings.Builder
	if err := page.Execute(&b, view); err != nil {
		return "", fmt.Errorf("write the report: %w", err)
	}
	return b.String(), nil
}

// conditions are the conditions that precede the figures.
func (r Report) conditions() []condition {
	all := []condition{
		{"measured", r.Began.Format(time.RFC3339) + ", in " + r.Conditions.Took.Round(time.Second).String()},
		{"program", orUnknown(r.Commit, "commit ") + ", " + r.Go},
	}
	if r.Simulated {
		return append(all, condition{"simulated", "four processors, a database and a log that drift and stall; nothing of it was measured on a machine"})
	}
	all = append(all, []condition{
		{"machine", fmt.Sprintf("%d × %s, %s", r.CPUs, orUnknown(r.Processor, ""), orUnknown(r.Kernel, r.Platform+" "))},
		{"before it", "load average " + orUnknown(r.LoadBefore, "")},
		{"meanwhile", r.share()},
		{"time", fmt.Sprintf("%s of the source in %v, %s times faster; a fixed pool %d times faster still", clock(r.Time), (Config{Time: r.Time, Speed: r.Speed}).Length(Contender{}).Round(time.Millisecond), figureOfSpeed(r.Speed), fixedShare)},
		{"windows", fmt.Sprintf("%v for the source's optimizers, which have 10 s there, so they hold as many times fewer requests; 500 ms for knee, as always", r.Period.Round(time.Microsecond))},
		{"load", "users of the same process, each on a connection of its own, one request after the other without a pause"},
	}...)
	if r.PostgreSQL != "" {
		all = append(all, condition{"database", "private PostgreSQL " + r.PostgreSQL + " on the same processors, fsync on, a connection for every user"})
	}
	return all
}

// share describes who used the processors.
func (r Report) share() string {
	if r.Idle < 0 {
		return "the use of the processors is unknown"
	}
	return fmt.Sprintf("the processors were idle for %.0f %% of the time; the host took %.0f %%", 100*r.Idle, 100*r.Stolen)
}

func orUnknown(s, prefix string) string {
	if s == "" {
		return prefix + "unknown"
	}
	return prefix + s
}

// RestText formats the size at which a pool rested, and for which part of the time.
func RestText(r Rest) string { return fmt.Sprintf("%d (%.0f %%)", r.At, 100*r.For) }

// Latency formats a latency in milliseconds; "-" if there is none.
func Latency(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return Number(milliseconds(d)) + " ms"
}
