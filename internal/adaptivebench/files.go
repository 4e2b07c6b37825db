package adaptivebench

import (
	"encoding/json"
	"fmt"
)

// File is one of the files that a report is kept in.
type File struct {
	Name string
	Text string
}

// Files are the report as an HTML page, as JSON, and each picture alone, and the
// latencies of each experiment as a histogram log.
func (r Report) Files() ([]File, error) {
	html, err := r.Page()
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	files := []File{{"report.html", html}, {"report.json", string(data) + "\n"}}
	for _, g := range r.Groups() {
		name := fmt.Sprintf("%s-%s-%d", g[0].App, g[0].Load, g[0].Users)
		files = append(files, File{name + "-time.svg", r.OverTime(g)}, File{name + "-bars.svg", r.Bars(g)})
		for _, x := range g {
			files = append(files, File{name + "-" + x.Contender + ".hlog", x.log})
		}
	}
	return files, nil
}
