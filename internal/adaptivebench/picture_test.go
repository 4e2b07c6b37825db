package adaptivebench

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// wantReport fails unless the files of a report are well-formed, complete, and without
// references to others.
func wantReport(t *testing.T, r Report) {
	t.Helper()
	files, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 + 2*len(r.Groups()) + len(r.Results); len(files) != want {
		t.Errorf("%d files, want %d", len(files), want)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".hlog") {
			h, err := hdrhistogram.NewHistogramLogReader(strings.NewReader(f.Text)).NextIntervalHistogram()
			if err != nil || h == nil || h.Tag() != "server" {
				t.Errorf("%s begins with %v, %v", f.Name, h, err)
			}
			continue
		}
		for _, bad := range []string{"NaN", "Inf", "%!", "<script", "url(", "@import", "<link", "<img", "<nil>"} {
			if strings.Contains(f.Text, bad) {
				t.Errorf("%s: %q in it", f.Name, bad)
			}
		}
		for _, address := range regexp.MustCompile(`(?:https?:)?//[a-z][^"<\s]*`).FindAllString(f.Text, -1) {
			if address != "http://www.w3.org/2000/svg" { // the name of the format
				t.Errorf("%s: it needs %s", f.Name, address)
			}
		}
		switch {
		case strings.HasSuffix(f.Name, ".svg"):
			wantPicture(t, f, r)
		case strings.HasSuffix(f.Name, ".html"):
			wantPage(t, f.Text, r)
		case strings.HasSuffix(f.Name, ".json"):
			var again Report
			if err := json.Unmarshal([]byte(f.Text), &again); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(r, again, cmp.AllowUnexported(Resize{}), cmpopts.IgnoreUnexported(Result{}), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".at" }, cmp.Ignore())); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// wantPicture checks that a picture can be parsed, labels its contenders, and has
// everything within its borders.
func wantPicture(t *testing.T, f File, r Report) {
	t.Helper()
	lines, bars, names := 0, 0, map[string]int{}
	var width, height float64
	d := xml.NewDecoder(strings.NewReader(f.Text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			x, y := number(e, "x"), number(e, "y")
			switch {
			case e.Name.Local == "svg":
				width, height = number(e, "width"), number(e, "height")
			case e.Name.Local == "polyline":
				lines++
				for point := range strings.FieldsSeq(attribute(e, "points")) {
					px, py, _ := strings.Cut(point, ",")
					wantWithin(t, f.Name, atof(px), atof(py), width, height)
				}
			case attribute(e, "class") == "bar":
				bars++
				wantWithin(t, f.Name, x+number(e, "width"), y+number(e, "height"), width, height)
			case e.Name.Local == "text":
				wantWithin(t, f.Name, x, y, width, height)
			}
		case xml.CharData:
			names[string(e)]++
		}
	}
	group := r.Groups()[slices.IndexFunc(r.Groups(), func(g []Result) bool {
		return strings.HasPrefix(f.Name, g[0].App+"-"+g[0].Load+"-"+strconv.Itoa(g[0].Users)+"-")
	})]
	for _, x := range group {
		want, title := 1, poolTitle(x.Contender)
		if strings.HasSuffix(f.Name, "-time.svg") {
			if want = 4; isFixed(x.Contender) {
				want = 3 // its size says nothing
			}
			if len(x.Uses) > 0 {
				want += len(uses)
			}
		}
		if names[title] != want {
			t.Errorf("%s: %s is named %d times, want %d", f.Name, title, names[title], want)
		}
	}
	switch {
	case strings.HasSuffix(f.Name, "-time.svg") && lines < 3*len(group):
		t.Errorf("%s: %d lines for %d contenders", f.Name, lines, len(group))
	case strings.HasSuffix(f.Name, "-bars.svg") && bars != 3*len(group):
		t.Errorf("%s: %d bars for %d contenders", f.Name, bars, len(group))
	}
}

func wantWithin(t *testing.T, name string, x, y, width, height float64) {
	t.Helper()
	if !(x >= 0 && x <= width && y >= 0 && y <= height) {
		t.Errorf("%s: %v, %v is outside of %v × %v", name, x, y, width, height)
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func number(e xml.StartElement, name string) float64 { return atof(attribute(e, name)) }

func atof(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return v
}

// wantPage checks that all elements of the page are closed, and that it has
// every group and contender.
func wantPage(t *testing.T, html string, r Report) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(html, "<!DOCTYPE html>")))
	count := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
	resized := 0
	for _, x := range r.Results {
		if len(x.Resizes) > 0 {
			resized++
		}
	}
	want := map[string]int{"h2": len(r.Groups()), "svg": 2 * len(r.Groups()), "table": len(r.Groups()) + resized, "details": resized}
	for name, n := range want {
		if count[name] != n {
			t.Errorf("the page has %d of %s, want %d", count[name], name, n)
		}
	}
	for _, g := range r.Groups() {
		if !strings.Contains(html, "<h2>"+titleOf(g[0].Task)+"</h2>") {
			t.Errorf("the page has no %q", titleOf(g[0].Task))
		}
	}
}

// Missing, unusual and incomplete results can be drawn as well.
func TestReportOfOddResults(t *testing.T) {
	figures := func(rate float64, d time.Duration) Figures { return Figures{rate, d, 2 * d, 3 * d, 1} }
	sample := func(at, rate float64, d time.Duration) Sample { return Sample{at, 1, figures(rate, d)} }
	varying := Task{App: "dbwrite", Load: VaryingLoad, Users: 100, Contender: "knee"}
	r := Report{Time: 25 * time.Minute, Speed: 45, Planned: 9, Results: []Result{
		{Task: varying, Start: 1, Figures: figures(10, time.Second), Samples: []Sample{sample(500, 5, time.Millisecond), sample(1000, 0, 0), sample(1400, 1e6, time.Hour), sample(1500, 0, 0)}, Resizes: []Resize{{At: 700, Size: 1 << 20, Why: `<script>"&'`}, {At: 9000, Size: 1}}},
		{Task: Task{App: "dbwrite", Load: VaryingLoad, Users: 100, Contender: "4"}, Start: 4},
		{Task: Task{App: "prime1m", Load: FixedLoad, Users: 1, Contender: "1"}, Start: 1, Samples: []Sample{sample(1, 0, 0)}},
		{Task: Task{App: "prime1m", Load: FixedLoad, Users: 1, Contender: "100"}, Start: 100, Samples: []Sample{sample(1500, 1e-9, 1)}},
	}}
	for _, p := range PhasesOf(VaryingLoad, 100) {
		r.Results[0].Parts = append(r.Results[0].Parts, Part{Phase: p})
	}
	html, err := r.Page()
	if err != nil {
		t.Fatal(err)
	}
	wantPage(t, html, r)
	for _, want := range []string{"of 9 experiments 4 are here", "&lt;script&gt;", "1 user</th>", "0 users</th>", "load average unknown"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	// A line of latencies is broken where no request ended.
	if n := strings.Count(r.OverTime(r.Groups()[0]), "<polyline "); n != 1+2+2+1 {
		t.Errorf("%d lines, want one each of throughput and size, and two of each latency", n)
	}
	if n := strings.Count(r.OverTime(r.Groups()[0]), ">knee</text>"); n != 4 {
		t.Errorf("knee, for whom no request ended last, is named %d times, want 4", n)
	}
	for _, g := range r.Groups() {
		for _, svg := range []string{r.OverTime(g), r.Bars(g)} {
			if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("%v:\n%s", err, svg)
			}
		}
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0012: "0.0012", 0.5: "0.50", 9.99: "10.0", 12.34: "12.3", 99.6: "100", 1234567: "1,234,567"} {
		if got := Number(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "00:00", 5 * time.Minute: "05:00", 25*time.Minute + 7*time.Second: "25:07", 90 * time.Minute: "1:30:00"} {
		if got := clock(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	if a, b := Latency(0), Latency(1500*time.Microsecond); a != "-" || b != "1.50 ms" {
		t.Errorf("%s, %s", a, b)
	}
}
