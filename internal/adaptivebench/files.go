package adaptivebench

import (
	"encoding/json"
	"fmt"
	"strings"
)

// File is one of the files of a report.
type File struct {
	Name string
	Text string
}

// DataFile is the name of the JSON file.
const DataFile = "report.json"

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
	files := []File{{"report.html", html}, {DataFile, string(data) + "\n"}}
	for _, g := range r.Groups() {
		name := fileName(g[0].group())
		files = append(files, File{name + "-time.svg", r.OverTime(g)}, File{name + "-bars.svg", r.Bars(g)})
		for _, x := range g {
			if x.log != "" { // a simulated experiment has none
				files = append(files, File{fileName(x.Task) + ".hlog", x.log})
			}
		}
	}
	return files, nil
}

// fileName is the prefix of the files of a task, or of a group of them.
func fileName(t Task) string {
	name := fmt.Sprintf("%s-%s-%d", t.App, t.Load, t.Users)
	for _, part := range []string{t.Optimizer, t.Contender} {
		if part != "" {
			name += "-" + strings.NewReplacer(" ", "-", "%", "-percent").Replace(part)
		}
	}
	return name
}
