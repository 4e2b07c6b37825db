package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/timeoutbench"
)

// managers are the timeout managers that bench survival compares.
var managers = []struct {
	name string
	make func() timeoutbench.Manager
}{
	{"every transaction", timeoutbench.NewScan},
	{"survival index", timeoutbench.NewSurvivalManager},
}

type survivalBenchView struct {
	benchView
	Users      int               `json:"users"`
	Iterations int               `json:"iterations"`
	WorkNS     time.Duration     `json:"work_ns"`
	IntervalNS time.Duration     `json:"interval_ns"`
	Rows       []survivalRowView `json:"rows"`
}

// survivalRowView is one manager with one number of pending transactions. Its figures are medians.
type survivalRowView struct {
	Manager string `json:"manager"`
	Pending int    `json:"pending"`
	timeoutbench.RedesignResult
	Rounds []timeoutbench.RedesignResult `json:"rounds"`
}

func survivalCommand(a *cli.App) *cobra.Command {
	var pending string
	var rounds int
	r := timeoutbench.OriginalRedesign()
	cmd := &cobra.Command{
		Use:   "survival",
		Short: "Compare the survival index with a scan of all transactions",
		Long: `Repeat the experiment of the publication of the survival index: users begin and end one
transaction after the other, while the timeout thread runs every interval. In the old
design it reads every pending transaction each time; with the survival index, those that
expire. --pending adds transactions of others that stay open.

  ELAPSED      of all users, who would need ITERATIONS times WORK if no request ever waited
  WAITED P99   time that a transaction waits for the manager, 99 of 100; and the maximum
  INVOCATION   processor time of the timeout thread each time; and the maximum

Figures are medians of the rounds.`,
		Example: `  txmgr bench survival
  txmgr bench survival --pending 1M --rounds 1 -o json`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&pending, "pending", "0,1M", "numbers of transactions of others, separated by commas")
	f.IntVar(&rounds, "rounds", 5, "number of rounds")
	f.IntVar(&r.Users, "users", r.Users, "number of users")
	f.IntVar(&r.Iterations, "iterations", r.Iterations, "number of transactions that each user begins and ends")
	f.DurationVar(&r.Work, "work", r.Work, "time that a transaction is open")
	f.DurationVar(&r.Interval, "interval", r.Interval, "time between two runs of the timeout thread")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		others, err := pendingCounts(pending)
		if err != nil {
			return err
		}
		if rounds < 1 || rounds > timeoutbench.MaxRounds {
			return output.Usage(fmt.Sprintf("--rounds 1 to %d", timeoutbench.MaxRounds), "--rounds is %d", rounds)
		}
		if err := r.Check(); err != nil {
			return output.Usage("txmgr bench survival --help", "%v", err)
		}
		v := survivalBenchView{benchView: startBench(), Users: r.Users, Iterations: r.Iterations, WorkNS: r.Work, IntervalNS: r.Interval}
		bar := a.Print.Progress("measuring", rounds*len(others)*len(managers), time.Now())
		v.Rows, err = redesign(cmd.Context(), r, others, rounds, func() { bar.Step(time.Now()) })
		bar.Hide()
		if err != nil {
			return err
		}
		v.finish()
		return a.Print.Print(output.Document{Value: v, IDs: managerNames(), Tables: []output.Table{survivalTable(v.Rows)}})
	}
	return cmd
}

// pendingCounts parses a list of numbers of pending transactions; one of them may be 0.
func pendingCounts(list string) ([]int, error) {
	counts, rest := []int{}, []string{}
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "0" {
			counts = []int{0}
		} else {
			rest = append(rest, text)
		}
	}
	if len(rest) > 0 {
		sizes, err := timeoutbench.ParseSizes(strings.Join(rest, ","))
		if err != nil {
			return nil, output.Usage("for example --pending 0,1M", "--pending: %v", err)
		}
		counts = append(counts, sizes...)
	}
	return counts, nil
}

// redesign measures both managers, in a random order each round.
func redesign(ctx context.Context, r timeoutbench.Redesign, pending []int, rounds int, done func()) ([]survivalRowView, error) {
	var rows []survivalRowView
	for _, n := range pending {
		for _, m := range managers {
			rows = append(rows, survivalRowView{Manager: m.name, Pending: n})
		}
	}
	for range rounds {
		for _, k := range rand.Perm(len(rows)) {
			r.Pending = rows[k].Pending
			result, err := r.Run(ctx, managers[k%len(managers)].make())
			if err != nil {
				return nil, err
			}
			rows[k].Rounds = append(rows[k].Rounds, result)
			runtime.GC()
			done()
		}
	}
	for k := range rows {
		rows[k].RedesignResult = timeoutbench.MedianResult(rows[k].Rounds)
	}
	return rows, nil
}

func managerNames() []string {
	var names []string
	for _, m := range managers {
		names = append(names, m.name)
	}
	return names
}

func survivalTable(rows []survivalRowView) output.Table {
	t := output.Table{Columns: output.Columns("PENDING", "READS", "ELAPSED", "WAITED P99", "MOST", "INVOCATION", "MOST", "TIMEOUTS")}
	for _, r := range rows {
		t.Add(timeoutbench.Count(r.Pending), r.Manager, roundDuration(r.Elapsed), roundDuration(r.Waited), roundDuration(r.WaitedMax),
			roundDuration(r.Invocation), roundDuration(r.InvocationMax), strconv.Itoa(r.Timeouts))
	}
	return t
}

// roundDuration rounds a duration to three digits.
func roundDuration(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
