package adaptivebench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// short is experiments of half a second for an optimizer, six windows, and a tenth for
// a fixed pool.
func short(apps ...string) Config {
	return Config{
		Apps: apps, Contenders: []Contender{{Name: "2", Size: 2}, {Name: "throughput"}},
		Users: []int{4}, Loads: []string{FixedLoad}, Time: time.Minute, Speed: 120,
	}
}

// TestRun is a complete small run: real HTTP, a real database, a pool of a fixed
// size and one with an optimizer.
func TestRun(t *testing.T) {
	t.Parallel()
	c := short("prime1m", "dbread", "dbwrite")
	c.Loads = Loads()
	began, done := map[Task]int{}, 0
	c.Step = func(task Task) { began[task]++ }
	c.Done = func() { done++ }
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 12 || r.Planned != 12 || done != 12 || len(began) != 12 {
		t.Fatalf("%d results of %d, %d begun, %d done", len(r.Results), r.Planned, len(began), done)
	}
	if r.PostgreSQL == "" || r.Took <= 0 || r.CPUs < 1 || r.Go == "" {
		t.Errorf("conditions: %+v", r.Conditions)
	}
	for i, task := range c.Tasks() {
		if diff := cmp.Diff(task, r.Results[i].Task); diff != "" {
			t.Error(diff)
		}
		wantSound(t, r.Results[i])
	}
	if groups := r.Groups(); len(groups) != 6 || len(groups[0]) != 2 {
		t.Errorf("%d groups", len(groups))
	}
	wantReport(t, r)
}

// wantSound fails unless the figures of a result fit together.
func wantSound(t *testing.T, r Result) {
	t.Helper()
	if r.Answered == 0 || r.Rate <= 0 || r.Mean <= 0 || r.P99 < r.Mean/2 || r.Size < 1 || r.Last < 1 || len(r.Parts) == 0 || len(r.Samples) == 0 {
		t.Errorf("%+v", r.Task)
		t.Errorf("figures %+v, answered %d, last %d, %d parts, %d samples", r.Figures, r.Answered, r.Last, len(r.Parts), len(r.Samples))
	}
	sum := 0.0
	for _, p := range r.Parts {
		sum += p.Rate * p.Part * r.Took.Seconds()
	}
	if off := math.Abs(sum - float64(r.Answered)); off > 0.02*float64(r.Answered)+1 {
		t.Errorf("%+v: %d answers, and %.0f in the phases", r.Task, r.Answered, sum)
	}
	if last := r.Samples[len(r.Samples)-1].At; math.Abs(last-60) > 1 {
		t.Errorf("%+v: the last sample is at %v s, want 60", r.Task, last)
	}
	if r.Contender == "2" && (r.Size != 2 || r.Last != 2 || r.Start != 2 || len(r.Resizes) != 0) {
		t.Errorf("a pool of 2 had %v: %v", r.Size, r.Resizes)
	}
	if r.Contender == "throughput" {
		// Its first step comes with its first window, whatever it sees.
		if r.Start != 1 || len(r.Resizes) == 0 || r.Resizes[0].Size != 11 || r.Resizes[0].Why == "" {
			t.Errorf("%+v: began with %d: %v", r.Task, r.Start, r.Resizes)
		}
		if r.Size <= 1 || r.Size > 101 {
			t.Errorf("%+v: mean size %v", r.Task, r.Size)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		`no application "prime"`:    func(c *Config) { c.Apps = []string{"prime"} },
		`no load "wild"`:            func(c *Config) { c.Loads = []string{"wild"} },
		"nothing to measure":        func(c *Config) { c.Contenders = nil },
		"0 users: want 1 to 1000":   func(c *Config) { c.Users = []int{0} },
		"1001 users":                func(c *Config) { c.Users = []int{1001} },
		"an experiment of 59s":      func(c *Config) { c.Time = 59 * time.Second },
		"an experiment of 24h0m1s":  func(c *Config) { c.Time = 24*time.Hour + time.Second },
		"a factor of 0.5: want 1":   func(c *Config) { c.Speed = 0.5 },
		"a factor of 1001: want 1 ": func(c *Config) { c.Speed = 1001 },
		"a factor of NaN":           func(c *Config) { c.Speed = math.NaN() },
	} {
		c := short("prime1m")
		spoil(&c)
		r, err := Run(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), want) || len(r.Results) != 0 {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestLongExperiment: the time limit for an experiment's end begins with the end.
func TestLongExperiment(t *testing.T) {
	t.Parallel()
	c := short("prime1m")
	c.Speed = 30 // two seconds
	b := bench{config: c, closeTimeout: 1500 * time.Millisecond}
	if _, err := b.measure(t.Context(), Task{App: "prime1m", Load: FixedLoad, Users: 4, Contender: "throughput"}); err != nil {
		t.Error(err)
	}
}

func TestInterruptedRunKeepsWhatThereIs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := short("prime1m")
	c.Contenders = []Contender{{Name: "1", Size: 1}, {Name: "2", Size: 2}, {Name: "3", Size: 3}}
	begun := 0
	c.Step = func(Task) {
		if begun++; begun == 2 {
			cancel()
		}
	}
	r, err := Run(ctx, c)
	if !errors.Is(err, context.Canceled) || len(r.Results) != 1 || r.Planned != 3 {
		t.Errorf("%d of %d results: %v", len(r.Results), r.Planned, err)
	}
}

// A server that fails gives no result.
func TestFailedRequestEndsTheExperiment(t *testing.T) {
	t.Parallel()
	b := bench{config: short("prime1m"), closeTimeout: closeTimeout}
	broken := service{answer: func(context.Context) (string, error) { return "", errors.New("the disk is full") }}
	_, err := b.underLoad(t.Context(), Task{App: "prime1m", Load: FixedLoad, Users: 3, Contender: "2"}, broken, &decisionRecorder{Optimizer: fixedOf(t, 2)}, 2)
	if err == nil || !strings.Contains(err.Error(), "500 Internal Server Error: the disk is full") {
		t.Errorf("got %v", err)
	}
	lost := service{
		answer: func(context.Context) (string, error) { return "done", nil },
		check:  func(context.Context, uint64) error { return errors.New("rows are missing") },
	}
	_, err = b.underLoad(t.Context(), Task{App: "prime1m", Load: FixedLoad, Users: 3, Contender: "2"}, lost, &decisionRecorder{Optimizer: fixedOf(t, 2)}, 2)
	if err == nil || !strings.Contains(err.Error(), "rows are missing") {
		t.Errorf("got %v", err)
	}
}

// The pool is the limit: no more requests are processed than it has workers, and
// otherwise as many as there are users.
func TestPoolLimitsRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ users, size, want int }{{8, 3, 3}, {2, 5, 2}} {
		b := bench{config: short("prime1m"), closeTimeout: closeTimeout}
		gauge := newGauge()
		s := service{answer: func(context.Context) (string, error) { gauge.pass(); return "done", nil }}
		b.config.Contenders = []Contender{{Name: "x", Size: c.size}}
		if _, err := b.underLoad(t.Context(), Task{App: "prime1m", Load: FixedLoad, Users: c.users, Contender: "x"}, s, &decisionRecorder{Optimizer: fixedOf(t, c.size)}, c.size); err != nil {
			t.Fatal(err)
		}
		if got := int(gauge.most.Load()); got != c.want {
			t.Errorf("%d users and %d workers: %d requests at once, want %d", c.users, c.size, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	users, err := ParseUsers("100, 1,10,10")
	if diff := cmp.Diff([]int{1, 10, 100}, users); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	for _, bad := range []string{"", "0", "1001", "few", "1,,2", "-1"} {
		if got, err := ParseUsers(bad); err == nil {
			t.Errorf("%q users: %v", bad, got)
		}
	}
	pools, err := ParseContenders("2, 010,knee,knee-0.05,p99-reconciled")
	if diff := cmp.Diff([]Contender{{Name: "2", Size: 2}, {Name: "10", Size: 10}, {Name: "knee"}, {Name: "knee-0.05", Optimizer: "knee", Setting: Setting{Change: 0.05}}, {Name: "p99-reconciled"}}, pools); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	for _, bad := range []string{"", "0", "1001", "vegas", "1,1", "knee,knee", "-3", "knee-reconciled", "knee-0", "knee-NaN"} {
		if got, err := ParseContenders(bad); err == nil {
			t.Errorf("the pools %q: %v", bad, got)
		}
	}
	if _, err := ParseContenders(DefaultContenders); err != nil {
		t.Error(err)
	}
}

// Every optimizer that is offered can be made, begins with one worker, and has the
// period it should.
func TestOptimizers(t *testing.T) {
	for _, name := range Optimizers() {
		o, start, err := Contender{Name: name}.Make(50)
		if err != nil || start != 1 {
			t.Errorf("%s: begins with %d: %v", name, start, err)
			continue
		}
		want := 200 * time.Millisecond
		if name == "knee" {
			want = 500 * time.Millisecond
		}
		if o.Period() != want {
			t.Errorf("%s: a period of %v, want %v", name, o.Period(), want)
		}
	}
}

func TestDefaultRunIsShortEnough(t *testing.T) {
	contenders, err := ParseContenders(DefaultContenders)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Contenders: contenders, Users: []int{100}, Loads: Loads(), Time: DefaultTime, Speed: DefaultSpeed}
	for _, a := range Apps() {
		c.Apps = append(c.Apps, a.Name)
	}
	if total := c.Total(); total > 25*time.Minute || total < 20*time.Minute {
		t.Errorf("the default run takes %v", total)
	}
	if n := len(c.Tasks()); n != 80 {
		t.Errorf("%d experiments by default", n)
	}
}
