package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/timeoutbench"
)

// Command returns txmgr bench.
func Command(a *cli.App) *cobra.Command {
	bench := &cobra.Command{
		Use:   "bench",
		Short: "Measure timeout structures and adaptive pools on this machine",
		Long: `Measure on this machine the timeout structures of the coordinator, and the optimizers of
its pools of workers. No server is needed, and none is called. Run nothing else on the
machine meanwhile.`,
	}
	cli.GroupCommand(bench)
	bench.AddCommand(timeoutsCommand(a), survivalCommand(a), adaptiveCommand(a), measureCommand(a), sleepCommand(a))
	return bench
}

// benchView says where and how a benchmark was measured.
type benchView struct {
	Began    time.Time `json:"began"`
	Took     float64   `json:"took_seconds"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	CPUs     int       `json:"cpus"`
}

func startBench() benchView {
	return benchView{
		Began: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
}

func (v *benchView) finish() { v.Took = time.Since(v.Began).Seconds() }

type timeoutsBenchView struct {
	benchView
	timeoutbench.Report
	Sleepers []timeoutbench.SleeperCell `json:"sleepers,omitempty"`
}

// sleepersName is the name of the heap experiment in --only.
const sleepersName = "sleepers"

func timeoutsCommand(a *cli.App) *cobra.Command {
	var sizes, loads, only, picture string
	var rounds int
	var huge bool
	cmd := &cobra.Command{
		Use:   "timeouts",
		Short: "Compare the timeout structures",
		Long: `Compare the timeout structures on the same work: schedule, cancel, both from several
goroutines, expiry of all entries, ticks at which nothing expires, memory, and the garbage
collector. Each structure is measured in a process of its own, in a new random order each
round; a figure is the median of the rounds, and -o wide shows the minimum and the
maximum. Times are processor times. null is the measuring loop alone: it is part of every
figure, and is not subtracted.

  survival       the groups of the survival index: deadlines of transactions
  heap           the pointer heap: the clock of the wheel
  wheel          the hierarchical timing wheel: retries, and the timeouts of the purgatory
  hashbelt       the ring of containers: sessions, and the retention of outcomes
  purgatory      requests that wait for a condition; it reads a clock of its own

Two designs that the sources of these structures replaced are measured beside them:

  copy-scan      before the hashbelt: one hash table, of which a thread reads every
                 entry each ten seconds
  old-purgatory  before the wheel: linked lists of watchers and a heap of all requests;
                 a completed request stays until a purge, after 10,000 of them

A pair is one schedule and one cancel: in one structure behind one mutex, or by each
goroutine in a structure of its own, which then has no lock.

The last table is of sleepers, the experiment by which State Threads chose its heap: a
thousand threads sleep for random times in a queue, and all are interrupted before that, a
thousand times over. The queue's data of a sleeper is part of a thread's descriptor, or
packed.`,
		Example: `  txmgr bench timeouts --sizes 10k --rounds 1
  txmgr bench timeouts --svg timeouts.svg
  txmgr bench timeouts --only survival,wheel --loads same --huge -o json
  txmgr bench timeouts --only sleepers`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&sizes, "sizes", "10k,100k,1M", "numbers of pending entries, separated by commas")
	f.BoolVar(&huge, "huge", false, "measure also with 10M pending entries")
	f.StringVar(&loads, "loads", "uniform,same", "timeouts: uniform (1 to 600 s), same (60 s), or both")
	f.StringVar(&only, "only", "", "structures, sleepers, separated by commas (default all)")
	f.IntVar(&rounds, "rounds", 5, "number of rounds")
	f.StringVar(&picture, "svg", "", "file for a picture of the results")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if huge {
			sizes += "," + strconv.Itoa(timeoutbench.MaxSize)
		}
		c, sleepers, err := benchConfig(sizes, loads, only, rounds)
		if err != nil {
			return err
		}
		if picture != "" && len(c.Contenders) == 0 {
			return output.Usage("name a structure in --only", "--svg: --only names no structure to draw")
		}
		drawing, err := createPicture(picture)
		if err != nil {
			return err
		}
		defer drawing.discard()
		v := timeoutsBenchView{benchView: startBench()}
		bar := a.Print.Progress("measuring", (len(c.Tasks())+len(sleepers))*c.Rounds, time.Now())
		c.Done = func() { bar.Step(time.Now()) }
		v.Report, err = timeoutbench.Run(cmd.Context(), c)
		if err == nil && len(sleepers) > 0 {
			args := func(queue string) []string { return []string{"bench", "sleep", queue} }
			v.Sleepers, err = timeoutbench.RunSleepers(cmd.Context(), c.Program, args, c.Rounds, nil, c.Done)
		}
		bar.Hide()
		if err != nil {
			return err
		}
		v.finish()
		if err := drawing.write(v.Picture("null")); err != nil {
			return err
		}
		return a.Print.Print(output.Document{Value: v, IDs: v.Contenders, Tables: benchTables(v, a.Print.Format == output.WideFormat)})
	}
	return cmd
}

// benchConfig validates the flags and returns the configuration, and the queues for sleepers if
// that experiment is selected.
func benchConfig(sizes, loads, only string, rounds int) (c timeoutbench.Config, sleepers []string, err error) {
	if rounds < 1 || rounds > timeoutbench.MaxRounds {
		return c, nil, output.Usage(fmt.Sprintf("--rounds 1 to %d", timeoutbench.MaxRounds), "--rounds is %d", rounds)
	}
	c.Rounds = rounds
	if c.Sizes, err = timeoutbench.ParseSizes(sizes); err != nil {
		return c, nil, output.Usage("for example --sizes 10k,1M", "--sizes: %v", err)
	}
	if err := timeoutbench.CheckMemory(c.Sizes[len(c.Sizes)-1]); err != nil {
		return c, nil, output.Usage("give smaller --sizes", "%v", err)
	}
	var all, known []string
	for _, own := range timeoutbench.Contenders() {
		all = append(all, own.Name)
	}
	for _, l := range timeoutbench.Loads() {
		known = append(known, l.Name)
	}
	all = append(all, sleepersName)
	if only != "" {
		if all, err = selectNames("--only", only, all); err != nil {
			return c, nil, err
		}
	}
	if c.Contenders = all; all[len(all)-1] == sleepersName {
		c.Contenders, sleepers = all[:len(all)-1], timeoutbench.SleeperQueues()
	}
	if c.Loads, err = selectNames("--loads", loads, known); err != nil {
		return c, nil, err
	}
	if c.Program, err = os.Executable(); err != nil {
		return c, nil, fmt.Errorf("find this program: %w", err)
	}
	c.Args = func(t timeoutbench.Task) []string {
		return []string{"bench", "measure", t.Contender, strconv.Itoa(t.Size), t.Load}
	}
	return c, sleepers, nil
}

// selectNames parses a comma-separated list of names and returns the named elements of all, in the
// order of all.
func selectNames(flag, list string, all []string) ([]string, error) {
	named := make(map[string]bool)
	for name := range strings.SplitSeq(list, ",") {
		named[strings.TrimSpace(name)] = true
	}
	var out []string
	for _, name := range all {
		if named[name] {
			out = append(out, name)
			delete(named, name)
		}
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); named[name] {
			next := output.DidYouMean(name, all, flag+" ")
			if next == "" {
				next = "want some of " + strings.Join(all, ", ")
			}
			return nil, output.Usage(next, "%s: there is no %q", flag, name)
		}
	}
	return out, nil
}

// benchTables has one table for each load and size, and one for sleepers.
func benchTables(v timeoutsBenchView, wide bool) []output.Table {
	var tables []output.Table
	r := v.Report
	if len(r.Contenders) == 0 {
		r.Loads = nil
	}
	for _, load := range r.Loads {
		for _, size := range r.Sizes {
			header := []string{strings.ToUpper(load) + " " + timeoutbench.Count(size), "UNIT"}
			for _, name := range r.Contenders {
				header = append(header, strings.ToUpper(name))
			}
			t := output.Table{Columns: output.Columns(header...)}
			for _, m := range r.Metrics {
				row := []string{m.Name, m.Unit}
				for _, name := range r.Contenders {
					c, ok := r.Find(timeoutbench.Task{Contender: name, Size: size, Load: load}, m.Name)
					row = append(row, benchCell(c, ok, wide))
				}
				t.Add(row...)
			}
			tables = append(tables, t)
		}
	}
	if len(v.Sleepers) > 0 {
		t := output.Table{Columns: output.Columns("SLEEPERS IN", "UNIT", "CPU")}
		for _, c := range v.Sleepers {
			t.Add(c.Queue, "ms", benchCell(timeoutbench.Cell{Median: c.Median, Least: c.Least, Most: c.Most}, true, wide))
		}
		tables = append(tables, t)
	}
	return tables
}

func benchCell(c timeoutbench.Cell, ok, wide bool) string {
	if !ok {
		return "-"
	}
	text := timeoutbench.Figure(c.Median)
	if wide {
		text += " (" + timeoutbench.Figure(c.Least) + " to " + timeoutbench.Figure(c.Most) + ")"
	}
	return text
}

// measureCommand is the command that bench timeouts starts for each measurement.
func measureCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:               "measure STRUCTURE SIZE LOAD",
		Short:             "Measure one structure once, in this process",
		Long:              "Measure one structure once, in this process, and print the figures as JSON. txmgr bench timeouts\nruns it.",
		Example:           "  txmgr bench measure survival 10000 uniform",
		Args:              cli.ArgCount(3, 3, "STRUCTURE SIZE LOAD"),
		ValidArgsFunction: cobra.NoFileCompletions,
		Hidden:            true,
		RunE: func(_ *cobra.Command, args []string) error {
			sizes, err := timeoutbench.ParseSizes(args[1])
			if err != nil || len(sizes) != 1 {
				return output.Usage("a number, for example 10000", "SIZE is %q", args[1])
			}
			found, err := timeoutbench.Measure(timeoutbench.Contenders(), timeoutbench.Task{Contender: args[0], Size: sizes[0], Load: args[2]})
			if err != nil {
				return err
			}
			return json.NewEncoder(a.Out).Encode(found)
		},
	}
}

// sleepCommand is the command that bench timeouts starts for each queue of sleepers.
func sleepCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:               "sleep QUEUE",
		Short:             "Measure sleepers in one queue once, in this process",
		Long:              "Measure sleepers in one queue once, in this process, and print the milliseconds as JSON. txmgr\nbench timeouts runs it.",
		Example:           "  txmgr bench sleep 'heap, threads'",
		Args:              cli.ArgCount(1, 1, "QUEUE"),
		ValidArgsFunction: cobra.NoFileCompletions,
		Hidden:            true,
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := timeoutbench.Sleep(args[0])
			if err != nil {
				return output.Usage("want one of "+strings.Join(timeoutbench.SleeperQueues(), "; "), "%v", err)
			}
			return json.NewEncoder(a.Out).Encode(found)
		},
	}
}
