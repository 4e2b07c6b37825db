package adaptivestudy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/internal/adaptivebench"
	"github.com/txmgr/txmgr/internal/adaptivesim"
)

// samplePeriod is the length of a point of a picture: the dissertation's window.
const samplePeriod = 10 * time.Second

// seeds are those with which an experiment is simulated.
var seeds = []uint64{1, 2, 3}

// experiment is an application under a load.
type experiment struct {
	task     adaptivebench.Task
	phases   []adaptivebench.Phase
	scenario *adaptivesim.Scenario
}

// Runs is how often Simulate calls the configuration's Done.
func Runs(c adaptivebench.Config) int {
	experiments, err := experimentsOf(c)
	if err != nil {
		return 0
	}
	n := 0
	for _, s := range experiments {
		n += adaptivesim.Runs([]*adaptivesim.Scenario{s.scenario}, len(seeds), len(c.Contenders))
	}
	return n
}

// Simulate carries a study out in simulated time, at the dissertation's pace whatever speed is
// configured. Its contenders are the study's. When ctx ends, the report has the
// completed applications and loads, beside the error.
func Simulate(ctx context.Context, s Study, c adaptivebench.Config) (Report, error) {
	c.Speed = 1
	r := Report{Study: s.Name, Rows: []Row{}, Seeds: seeds}
	if err := c.Check(); err != nil {
		return r, err
	}
	experiments, err := experimentsOf(c)
	if err != nil {
		return r, err
	}
	began := adaptivebench.Begin()
	r.Report = adaptivebench.Report{Time: c.Time, Speed: 1, Period: samplePeriod, Simulated: true, Planned: len(c.Tasks()), Results: []adaptivebench.Result{}}
	for _, experiment := range experiments {
		if err = r.add(ctx, experiment, c); err != nil {
			break
		}
	}
	r.Conditions = began.End()
	return r, err
}

// experimentsOf are the applications under the loads.
func experimentsOf(c adaptivebench.Config) ([]experiment, error) {
	var experiments []experiment
	for _, t := range c.Tasks() {
		t.Contender, t.Optimizer = "", ""
		if n := len(experiments); n > 0 && experiments[n-1].task == t {
			continue
		}
		w, err := workloadOf(t.App)
		if err != nil {
			return nil, err
		}
		phases := adaptivebench.PhasesOf(t.Load, t.Users)
		scenario := &adaptivesim.Scenario{Name: t.App + "/" + t.Load, Workload: w, Noise: 1, Sample: samplePeriod}
		for _, p := range phases {
			scenario.Phases = append(scenario.Phases, adaptivesim.Phase{Length: time.Duration(p.Part * float64(c.Time)), Users: p.Users})
		}
		experiments = append(experiments, experiment{t, phases, scenario})
	}
	return experiments, nil
}

func workloadOf(app string) (*adaptivesim.Workload, error) {
	for _, w := range adaptivesim.Workloads() {
		if strings.EqualFold(w.Name, app) {
			return w, nil
		}
	}
	return nil, fmt.Errorf("there is no application %q to simulate", app)
}

// add simulates all contenders in one experiment.
func (r *Report) add(ctx context.Context, s experiment, c adaptivebench.Config) error {
	var contenders []adaptivesim.Contender
	for _, x := range c.Contenders {
		contenders = append(contenders, adaptivesim.Contender{Name: x.Name, Limit: 1, New: func() (adaptive.Optimizer, error) {
			o, _, err := x.Make(1)
			return o, err
		}})
	}
	compared, err := adaptivesim.Compare(ctx, []*adaptivesim.Scenario{s.scenario}, seeds, contenders, c.Done)
	if err != nil {
		return fmt.Errorf("simulate %s: %w", s.scenario.Name, err)
	}
	for i, x := range c.Contenders {
		task := s.task
		task.Contender, task.Optimizer = x.Name, x.Optimizer
		var rows []Row
		for seed, score := range compared.Scores[i].All {
			result := s.result(task, score.Result)
			if seed == 0 {
				r.Results = append(r.Results, result)
			}
			row := rowOf(result)
			row.OfBest, row.Needless = score.Throughput, float64(score.Needless)
			rows = append(rows, row)
		}
		r.Rows = append(r.Rows, meanOf(rows))
	}
	return nil
}

// result converts a simulated run to a measured one.
func (s experiment) result(t adaptivebench.Task, run *adaptivesim.Result) adaptivebench.Result {
	sizes := adaptivebench.Sizes{Start: run.Limit}
	for _, d := range run.Resizes() {
		sizes.Changes = append(sizes.Changes, adaptivebench.ResizeAt(d.At, d.To, d.Why))
	}
	out := adaptivebench.Result{
		Task: t, Start: sizes.Start, Last: sizes.Last(), Resizes: append([]adaptivebench.Resize{}, sizes.Changes...),
		Uses: []adaptivebench.Use{},
	}
	for _, p := range run.Samples {
		out.Samples = append(out.Samples, adaptivebench.Sample{
			At: p.To.Seconds(), Users: s.phases[p.Phase].Users,
			Figures: figures(p.Completed, p.To-p.From, p.Mean, p.P99, sizes.Mean(p.From, p.To)),
		})
	}
	var all adaptive.Histogram
	var end time.Duration
	for i := range run.Phases {
		p := &run.Phases[i]
		end = p.Start + p.Length
		all.Add(&p.All.Sojourn)
		out.Parts = append(out.Parts, adaptivebench.Part{
			Phase:   s.phases[i],
			Figures: figures(p.All.Count, p.Length, p.All.Sojourn.Mean(), p.All.Sojourn.Quantile(0.99), sizes.Mean(p.Start, end)),
			Rest:    sizes.Rest(p.Start, end, 1),
		})
	}
	out.Figures = figures(all.Count(), end, all.Mean(), all.Quantile(0.99), sizes.Mean(0, end))
	out.Rest, out.Took, out.Answered = sizes.Rest(0, end, 1), end, all.Count()
	out.PerWindow = out.Rate * samplePeriod.Seconds()
	return out
}

// figures are those of n requests in some time. The users saw the server's latencies:
// there is no network between them.
func figures(n uint64, in, mean, p99 time.Duration, size float64) adaptivebench.Figures {
	return adaptivebench.Figures{Rate: float64(n) / in.Seconds(), Mean: mean, P99: p99, UserP99: p99, Size: size}
}
