package participant

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn/admin"
)

// AdaptiveCommand returns txmgr adaptive.
func AdaptiveCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adaptive",
		Short: "Show the adaptive concurrency limits of participants",
		Long: `Show the adaptive concurrency limits of participants: how many calls recovery makes to each
at once. Each participant has a pool of its own, whose optimizer finds its size by
measurement; the default, knee, finds the smallest size with nearly full throughput. Other
optimizers are chosen by txmgr participant add --optimizer, and for all participants by
txmgr server --recovery-optimizer.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(adaptiveExplainCommand(a))
	return cmd
}

func adaptiveExplainCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [PARTICIPANT]",
		Short: "Explain the concurrency limit of a participant",
		Long: `Show the concurrency limit of a participant, its throughput and latencies, and every
decision that is kept, with its reason; of all participants the last ten decisions of
each. The leader decides; a new leader begins anew.

RATE is the number of calls answered per second before the decision, BUSY the number of
calls in progress, BOUND the part of the time in which more calls could have been made.
MEAN and P99 are the times from when calls could have begun to their ends, including the
time in the queue.`,
		Example:           "  txmgr adaptive explain\n  txmgr adaptive explain bank -o json",
		Args:              cli.ArgCount(0, 1, "at most one PARTICIPANT"),
		ValidArgsFunction: a.CompleteParticipants(),
		RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			pools, err := c.Admin().Pools(ctx, name)
			if err != nil {
				return err
			}
			return printPools(a, pools)
		}),
	}
}

func printPools(a *cli.App, pools []admin.Pool) error {
	whole := make([]admin.Pool, len(pools))
	names := make([]string, len(pools))
	sizes := output.Table{Columns: output.Columns("PARTICIPANT", "OPTIMIZER", "LIMIT", "RUNNING", "QUEUED", "PER SECOND", "MEAN", "P99", "RAISED", "LOWERED")}
	decisions := output.Table{Columns: []output.Column{
		{Name: "PARTICIPANT"},
		{Name: "TIME"},
		{Name: "FROM"},
		{Name: "TO"},
		{Name: "RATE"},
		{Name: "BUSY"},
		{Name: "BOUND"},
		{Name: "MEAN", Wide: true},
		{Name: "P99", Wide: true},
		{Name: "QUEUED", Wide: true},
		{Name: "WHY"},
	}}
	for i, p := range pools {
		if p.Decisions == nil {
			p.Decisions = []admin.PoolDecision{}
		}
		whole[i], names[i] = p, p.Participant
		sizes.Add(p.Participant, p.Optimizer, cell.Int(p.Limit), cell.Int(p.Running), cell.Int(p.Queued), formatRate(p.Throughput), cell.ShortDuration(p.Mean), cell.ShortDuration(p.P99),
			strconv.FormatUint(p.Raised, 10), strconv.FormatUint(p.Lowered, 10))
		for _, d := range p.Decisions {
			decisions.Add(p.Participant, cell.Clock(d.At), cell.Int(d.From), cell.Int(d.To), formatRate(d.Rate), formatRate(d.Busy), fmt.Sprintf("%.0f %%", 100*d.Bound),
				cell.ShortDuration(d.Mean), cell.ShortDuration(d.P99), cell.Int(d.Queued), d.Why)
		}
	}
	tables := []output.Table{sizes}
	if len(decisions.Rows) > 0 {
		tables = append(tables, decisions)
	}
	return a.Print.Print(output.Document{Value: whole, IDs: names, Tables: tables})
}

// formatRate formats a rate per second with at most three digits after the point.
func formatRate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64)
	case v < 100:
		return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// lastDecision formats a decision of the optimizer for a table cell.
func lastDecision(d *admin.PoolDecision) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%s ago: %d to %d: %s", output.Since(time.Since(d.At)), d.From, d.To, d.Why)
}
