package timeoutbench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
)

// MaxRounds is how often a contender can be measured in one run.
const MaxRounds = 99

// Config configures a run.
type Config struct {
	Contenders []string
	Sizes      []int
	Loads      []string
	Rounds     int

	// Program and Args start a process that measures one task and prints its [Figures] as JSON on standard output.
	Program string
	Args    func(Task) []string

	// Step is called when a measurement begins, and Done when it ends. Both may be nil.
	Step func(round int, t Task)
	Done func()
}

// Tasks are the measurements of one round.
func (c Config) Tasks() []Task {
	var tasks []Task
	for _, load := range c.Loads {
		for _, size := range c.Sizes {
			for _, name := range c.Contenders {
				tasks = append(tasks, Task{name, size, load})
			}
		}
	}
	return tasks
}

// Cell is one figure of one contender in all rounds.
type Cell struct {
	Task
	Metric string    `json:"metric"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
	Rounds []float64 `json:"rounds"`
}

// Report is the result of a run.
type Report struct {
	Contenders []string `json:"contenders"`
	Sizes      []int    `json:"sizes"`
	Loads      []string `json:"loads"`
	Rounds     int      `json:"rounds"`
	Metrics    []Metric `json:"metrics"`
	Cells      []Cell   `json:"cells"`
}

// Run measures everything, in a new random order each round. It ends early when ctx does.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Rounds < 1 || c.Rounds > MaxRounds {
		return Report{}, fmt.Errorf("%d rounds: want 1 to %d", c.Rounds, MaxRounds)
	}
	tasks := c.Tasks()
	seen := make(map[Task][]Figures)
	for round := range c.Rounds {
		for _, k := range rand.Perm(len(tasks)) {
			if c.Step != nil {
				c.Step(round+1, tasks[k])
			}
			found, err := inProcess(ctx, c.Program, c.Args(tasks[k]), tasks[k].String())
			if err != nil {
				return Report{}, err
			}
			seen[tasks[k]] = append(seen[tasks[k]], found)
			if c.Done != nil {
				c.Done()
			}
		}
	}
	r := Report{Contenders: c.Contenders, Sizes: c.Sizes, Loads: c.Loads, Rounds: c.Rounds, Metrics: Metrics(), Cells: []Cell{}}
	for _, t := range tasks {
		for _, m := range r.Metrics {
			if cell, ok := cellOf(t, m, seen[t]); ok {
				r.Cells = append(r.Cells, cell)
			}
		}
	}
	return r, nil
}

// inProcess measures something in a process of its own.
func inProcess(ctx context.Context, program string, args []string, what string) (Figures, error) {
	child := exec.CommandContext(ctx, program, args...)
	var out, stderr bytes.Buffer
	child.Stdout, child.Stderr = &out, &stderr
	if err := child.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		message := strings.TrimSpace(stderr.String())
		if message == "" && errors.As(err, new(*exec.ExitError)) {
			message = "it said nothing; if it was killed, this machine has too little memory for so many entries"
		}
		return nil, fmt.Errorf("measure %s: %w: %s", what, err, message)
	}
	var found Figures
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("measure %s: read the figures: %w", what, err)
	}
	return found, nil
}

func cellOf(t Task, m Metric, rounds []Figures) (Cell, bool) {
	c := Cell{Task: t, Metric: m.Name, Unit: m.Unit}
	for _, found := range rounds {
		if v, ok := found[m.Name]; ok {
			c.Rounds = append(c.Rounds, v)
		}
	}
	if len(c.Rounds) == 0 {
		return c, false
	}
	c.Median, c.Least, c.Most = spread(c.Rounds)
	return c, true
}

func spread(rounds []float64) (median, least, most float64) {
	return Median(rounds), slices.Min(rounds), slices.Max(rounds)
}

// Find returns the cell of a metric; ok is false if the contender was not measured so.
func (r Report) Find(t Task, metric string) (c Cell, ok bool) {
	i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.Task == t && c.Metric == metric })
	if i < 0 {
		return Cell{}, false
	}
	return r.Cells[i], true
}

// Median is the middle of the values, the upper one of two; zero if there are none.
func Median[T cmp.Ordered](values []T) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Figure formats a figure to its meaningful digits.
func Figure(v float64) string {
	switch {
	case v >= 9.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 0.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// Count formats a number of entries in short form: 10k, 1M.
func Count(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1_000 && n%1_000 == 0:
		return fmt.Sprintf("%dk", n/1_000)
	}
	return fmt.Sprint(n)
}
