package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/internal/timeoutbench"
)

// Names of the experiments.
const (
	sleepersName = "sleepers"
	rotationName = "rotation"
)

// rotatedObjects is the number of objects in the container that is dropped.
const rotatedObjects = 1_000_000

// report is the result of one run.
type report struct {
	Condition rig.Condition `json:"condition"`
	timeoutbench.Report
	Sleepers []timeoutbench.SleeperCell `json:"sleepers"`
	Rotation map[string][]float64       `json:"rotation_ns"` // by part
	Goals    []rig.Goal                 `json:"goals"`
}

// experiments runs the selected experiments.
func (r *report) experiments(ctx context.Context, program string, o options) (err error) {
	if slices.Contains(o.only, sleepersName) {
		args := func(queue string) []string { return []string{"-queue", queue} }
		step := func(round int, queue string) { progressf("round %d of %d: sleepers, %s", round, o.rounds, queue) }
		if r.Sleepers, err = timeoutbench.RunSleepers(ctx, program, args, o.rounds, step, nil); err != nil {
			return err
		}
	}
	if !slices.Contains(o.only, rotationName) {
		return nil
	}
	r.Rotation = make(map[string][]float64)
	for n := range o.rounds {
		progressf("round %d of %d: %s", n+1, o.rounds, rotationName)
		out, err := exec.CommandContext(ctx, program, "-rotate", "-size", strconv.Itoa(rotatedObjects)).Output()
		if err != nil {
			return fmt.Errorf("%s: %w", rotationName, err)
		}
		var found timeoutbench.Figures
		if err := json.Unmarshal(out, &found); err != nil {
			return fmt.Errorf("%s: %w", rotationName, err)
		}
		for what, v := range found {
			r.Rotation[what] = append(r.Rotation[what], v)
		}
	}
	return nil
}

// checkGoals checks the goals at the largest size.
func (r *report) checkGoals() {
	for _, load := range r.Loads {
		size := slices.Max(r.Sizes)
		what := fmt.Sprintf("%s, %s", timeoutbench.Count(size), load)
		// atLeast requires a contender to be want times as fast as its peer, round by round.
		atLeast := func(want float64, metric, name, peer string) {
			own, other := r.rounds(name, load, size, metric), r.rounds(peer, load, size, metric)
			if len(own) > 0 && len(other) > 0 {
				r.Goals = append(r.Goals, rig.AtLeast(fmt.Sprintf("%s: %s, %s to %s", what, metric, name, peer), want, ratios(other, own)))
			}
		}
		for _, g := range []struct {
			want         float64
			metric, peer string
		}{
			{5, timeoutbench.Add, afterFunc},
			{2.5, timeoutbench.Add, stdHeap},
			{2.5, timeoutbench.Add, btree},
			{1.8, timeoutbench.Cancel, afterFunc},
			{2.5, timeoutbench.Cancel, stdHeap},
			{2.5, timeoutbench.Cancel, btree},
		} {
			atLeast(g.want, g.metric, ownSurvival, g.peer)
		}
		atLeast(2, timeoutbench.Add, lockedWheel, afterFunc)
		atLeast(1, timeoutbench.Cancel, lockedWheel, afterFunc)
		atLeast(2, timeoutbench.Add, lockedWheel, channels)
		atLeast(2, timeoutbench.Cancel, lockedWheel, channels)
		for _, metric := range []string{timeoutbench.Add, timeoutbench.Cancel} {
			own, other := r.rounds(lockedHeap, load, size, metric), r.rounds(stdHeap, load, size, metric)
			if len(own) > 0 && len(other) > 0 {
				r.Goals = append(r.Goals, rig.AtMost(fmt.Sprintf("%s: %s, time of %s to that of %s", what, metric, lockedHeap, stdHeap), 1.5, ratios(own, other)))
			}
		}
		if longest := r.rounds("wheel", load, size, timeoutbench.LongestTick); load == "uniform" && len(longest) > 0 {
			r.Goals = append(r.Goals, rig.AtMost(what+": longest tick of the wheel, µs", 9000, longest))
		}
		if parked := r.rounds(ownPurgatory, load, size, timeoutbench.Bytes); len(parked) > 0 {
			r.Goals = append(r.Goals, rig.AtMost(what+": bytes of a parked request", 300, parked))
		}
	}
	if list, heap := r.slept(timeoutbench.SleeperList), r.slept(timeoutbench.SleeperHeap); len(list) > 0 {
		r.Goals = append(r.Goals, rig.AtLeast("a thousand sleeping threads, heap to sorted list", 8, ratios(list, heap)))
	}
	if locked := r.Rotation[underLock]; len(locked) > 0 {
		r.Goals = append(r.Goals, rig.AtMost("a container of a million objects falls off, under the lock, ns", 1000, locked))
	}
}

// slept returns the rounds of a queue in the sleepers experiment, none if it did not run.
func (r *report) slept(queue string) []float64 {
	for _, c := range r.Sleepers {
		if c.Queue == queue {
			return c.Rounds
		}
	}
	return nil
}

func (r *report) rounds(name, load string, size int, metric string) []float64 {
	c, _ := r.Find(timeoutbench.Task{Contender: name, Size: size, Load: load}, metric)
	return c.Rounds
}

func ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for n := range out {
		out[n] = a[n] / b[n]
	}
	return out
}

func (r *report) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if err := r.Condition.Print(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "times are of the processor; medians, with the least and the most; null is the measuring loop, not subtracted")
	parts := [][]string{
		{timeoutbench.Add, timeoutbench.Cancel, timeoutbench.Expire, timeoutbench.LongestTick, timeoutbench.IdleTick},
		{timeoutbench.Bytes, timeoutbench.BytesChurned, timeoutbench.Collection, timeoutbench.Pause},
		nil, nil,
	}
	for _, workers := range timeoutbench.Workers {
		parts[2] = append(parts[2], timeoutbench.Churn(workers, true), timeoutbench.Churn(workers, false))
		parts[3] = append(parts[3], timeoutbench.Rate(workers, true), timeoutbench.Rate(workers, false))
	}
	for _, load := range r.Loads {
		for _, size := range r.Sizes {
			for _, metrics := range parts {
				if err := r.table(w, load, size, metrics); err != nil {
					return err
				}
			}
		}
	}
	if err := r.printExperiments(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return rig.PrintGoals(w, r.Goals)
}

func (r *report) table(w io.Writer, load string, size int, metrics []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\n%s, %s pending\t", load, timeoutbench.Count(size))
	for _, metric := range metrics {
		i := slices.IndexFunc(r.Metrics, func(m timeoutbench.Metric) bool { return m.Name == metric })
		fmt.Fprintf(t, "%s, %s\t", metric, r.Metrics[i].Unit)
	}
	fmt.Fprintln(t)
	for _, name := range r.Contenders {
		fmt.Fprintf(t, "%s\t", name)
		for _, metric := range metrics {
			c, ok := r.Find(timeoutbench.Task{Contender: name, Size: size, Load: load}, metric)
			if !ok {
				fmt.Fprint(t, "-\t")
				continue
			}
			fmt.Fprintf(t, "%s (%s to %s)\t", timeoutbench.Figure(c.Median), timeoutbench.Figure(c.Least), timeoutbench.Figure(c.Most))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func (r *report) printExperiments(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Sleepers) > 0 {
		fmt.Fprintf(t, "\n%d sleepers, all interrupted, %d times\tCPU ms\tleast\tmost\t\n", timeoutbench.Sleepers, timeoutbench.SleeperRounds)
	}
	for _, c := range r.Sleepers {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t\n", c.Queue, c.Median, c.Least, c.Most)
	}
	if len(r.Rotation) > 0 {
		fmt.Fprintf(t, "\na container of %d objects falls off\tns\tleast\tmost\t\n", rotatedObjects)
	}
	for _, part := range []string{wholeCall, underLock} {
		if took := r.Rotation[part]; len(took) > 0 {
			fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t\n", part, timeoutbench.Median(took), slices.Min(took), slices.Max(took))
		}
	}
	return t.Flush()
}
