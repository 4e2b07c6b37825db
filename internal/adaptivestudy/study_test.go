package adaptivestudy

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/adaptivebench"
)

// small is a study of one optimizer, short.
func small(t *testing.T, study, optimizers string) (Study, adaptivebench.Config) {
	t.Helper()
	s, err := Find(study)
	if err != nil {
		t.Fatal(err)
	}
	contenders, err := s.Contenders(optimizers)
	if err != nil {
		t.Fatal(err)
	}
	return s, adaptivebench.Config{
		Apps: []string{"prime1m"}, Contenders: contenders, Users: []int{20}, Loads: []string{adaptivebench.VaryingLoad},
		Time: 5 * time.Minute, Speed: adaptivebench.DefaultSpeed,
	}
}

// TestPublishedValueIsAmongThem: each study has the published optimizer among its
// contenders, which decides as one without a setting does.
func TestPublishedValueIsAmongThem(t *testing.T) {
	published := map[string]string{"period": "period 10s", "lock": "lock 60s", "step": "step 10", "change": "change 5%"}
	for _, s := range Studies() {
		_, c := small(t, s.Name, "mean")
		i := slices.IndexFunc(c.Contenders, func(x adaptivebench.Contender) bool { return x.Name == published[s.Name] })
		if i < 0 {
			t.Errorf("no %q among %v", published[s.Name], c.Contenders)
			continue
		}
		c.Contenders = []adaptivebench.Contender{c.Contenders[i], {Name: "mean"}}
		r, err := Simulate(t.Context(), s, c)
		if err != nil {
			t.Fatal(err)
		}
		got, want := r.Results[0].Resizes, r.Results[1].Resizes
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(adaptivebench.Resize{})); diff != "" || len(want) == 0 {
			t.Errorf("%s (-published +with it):\n%s", published[s.Name], diff)
		}
	}
}

// TestSimulate checks that the parts of a report fit together.
func TestSimulate(t *testing.T) {
	s, c := small(t, "lock", "mean,knee")
	c.Loads = adaptivebench.Loads()
	done := 0
	c.Done = func() { done++ }
	r, err := Simulate(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	if want := Runs(c); done != want || want == 0 {
		t.Errorf("%d runs, %d were announced", done, want)
	}
	if len(r.Results) != 16 || len(r.Rows) != 16 || r.Planned != 16 || len(r.Groups()) != 4 || !r.Simulated || r.Took <= 0 {
		t.Fatalf("%d results, %d rows, %d planned, %d groups", len(r.Results), len(r.Rows), r.Planned, len(r.Groups()))
	}
	for i, task := range c.Tasks() {
		x, row := r.Results[i], r.Rows[i]
		if x.Task != task || row.Task != task {
			t.Errorf("%+v and %+v, want %+v", x.Task, row.Task, task)
		}
		sum := 0.0
		for _, p := range x.Parts {
			sum += p.Rate * p.Part * c.Time.Seconds()
		}
		if math.Abs(sum-float64(x.Answered)) > 1 || x.Answered == 0 || len(x.Samples) != 30 || x.Samples[29].At != 300 {
			t.Errorf("%+v: %d answers, %.0f in the phases, %d samples", task, x.Answered, sum, len(x.Samples))
		}
		if row.Rate <= 0 || row.Mean <= 0 || row.P99 < row.Mean || row.At < 1 || row.For <= 0 || row.For > 1 || row.OfBest <= 0 || row.OfBest > 1.05 || row.Needless > row.Resizes {
			t.Errorf("%+v", row)
		}
		if varying := task.Load == adaptivebench.VaryingLoad; varying != (row.IdleAfter >= 0) || varying != (row.LoadAfter >= 0) {
			t.Errorf("%+v: %v and %v s after the load's changes", task, row.IdleAfter, row.LoadAfter)
		}
	}
	files, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2+2*4 {
		t.Errorf("%d files", len(files))
	}
	for _, f := range files {
		if f.Name == adaptivebench.DataFile {
			var again Report
			if err := json.Unmarshal([]byte(f.Text), &again); err != nil || len(again.Rows) != 16 || again.Study != "lock" || len(again.Seeds) != len(seeds) {
				t.Errorf("%v: %d rows of %q", err, len(again.Rows), again.Study)
			}
		}
		if f.Name == "report.html" && strings.Contains(f.Text, "fsync") {
			t.Error("a page about a simulation speaks of a disk")
		}
	}
}

// TestMeasure is a study in real time, with half seconds of load.
func TestMeasure(t *testing.T) {
	s, c := small(t, "period", "throughput")
	c.Speed = 600
	r, err := Measure(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 3 || len(r.Groups()) != 1 || r.Simulated {
		t.Fatalf("%d rows in %d groups", len(r.Rows), len(r.Groups()))
	}
	for i, want := range []string{"period 5s", "period 10s", "period 60s"} {
		row := r.Rows[i]
		if row.Contender != want || row.Optimizer != "throughput" || row.Rate <= 0 || row.OfBest != -1 || row.Needless != -1 {
			t.Errorf("%+v, want %s", row, want)
		}
	}
	// A window of 60 s is not yet over when the first of 10 s has decided.
	if a, b := r.Results[1].Resizes[0].At, r.Results[2].Resizes[0].At; a >= b {
		t.Errorf("the first decision is at %v s with windows of 10 s, and at %v with 60", a, b)
	}
}

func TestInterruptedStudyKeepsWhatThereIs(t *testing.T) {
	s, c := small(t, "step", "p99")
	c.Apps = []string{"prime1m", "dbread"}
	ctx, cancel := context.WithCancel(t.Context())
	runs, left := 0, Runs(c)/2+1
	c.Done = func() {
		if runs++; runs == left {
			cancel()
		}
	}
	r, err := Simulate(ctx, s, c)
	if !errors.Is(err, context.Canceled) || len(r.Rows) != 5 || r.Planned != 10 {
		t.Errorf("%d of %d rows: %v", len(r.Rows), r.Planned, err)
	}
}

func TestStudyRefuses(t *testing.T) {
	if _, err := Find("pace"); err == nil || !strings.Contains(err.Error(), "want one of period, lock, step, change") {
		t.Error(err)
	}
	s, c := small(t, "change", "")
	for _, bad := range []string{"knee", "10", "vegas", "mean,mean"} {
		if got, err := s.Contenders(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	c.Apps = []string{"prime"}
	if r, err := Simulate(t.Context(), s, c); err == nil || len(r.Rows) != 0 {
		t.Errorf("%v", err)
	}
}

func TestMeanOfRows(t *testing.T) {
	row := func(rate float64, at int, share float64) Row {
		return Row{Rate: rate, Mean: time.Duration(rate), Rest: adaptivebench.Rest{At: at, For: share, After: rate}, Resizes: rate}
	}
	got := meanOf([]Row{row(10, 11, 0.5), row(20, 21, 0.9), row(60, 11, 0.7)})
	want := Row{Rate: 30, Mean: 30, Resizes: 30, Rest: adaptivebench.Rest{At: 11, For: 0.6, After: 35}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := meanOf([]Row{row(1, 21, 1), row(1, 11, 1)}); got.At != 11 {
		t.Errorf("rests at %d, want the smaller one of two", got.At)
	}
}
