package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

func watchCommand(a *cli.App) *cobra.Command {
	var o filterOptions
	var limit int
	cmd := &cobra.Command{
		Use:   "watch [TX]",
		Short: "Show changes of state as they happen",
		Long: `Show every change of state from now on, of all transactions or of one, until it is
interrupted. With -o json or jsonl each change is one line.`,
		Example: `  txmgr watch
  txmgr watch --state committed,rolled-back -o jsonl
  txmgr watch tx_01k9 --count 1`,
		Args:              cli.ArgCount(0, 1, "at most TX"),
		ValidArgsFunction: a.CompleteTX(false),
	}
	o.flags(a, cmd)
	cmd.Flags().IntVar(&limit, "count", 0, "end after this number of changes (default: never)")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		filter, err := o.filter()
		if err != nil {
			return err
		}
		if limit < 0 {
			return output.Usage("", "--count is %d", limit)
		}
		if len(args) == 1 {
			callCtx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
			defer cancel()
			id, err := cli.ResolveID(callCtx, c, args[0])
			if err != nil {
				return err
			}
			filter.Prefix = id.String()
		}
		return watch(ctx, a, c, filter, limit)
	})
	return cmd
}

func watch(ctx context.Context, a *cli.App, c *client.Client, filter txn.Filter, limit int) error {
	s := a.Print.Stream(
		output.Column{Name: "TIME", Width: len("15:04:05.000")},
		output.Column{Name: "TX", Width: txn.IDTextLen},
		output.Column{Name: "STATE", State: true, Width: len("rolling-back")},
		output.Column{Name: "CAUSE", Width: len("session-expired")},
		output.Column{Name: "TICK", Width: 8, Wide: true},
		output.Column{Name: "NAME"},
	)
	seen := 0
	for e, err := range c.Watch(ctx, filter) {
		if err != nil {
			return err
		}
		cause := ""
		if e.Cause != 0 {
			cause = e.Cause.String()
		}
		err := s.Emit(e, e.ID.String(), e.Time.Local().Format("15:04:05.000"), e.ID.String(),
			cell.State(e.State, e.Heuristic), cause, cell.Int(e.Tick), e.Name)
		if seen++; err != nil || seen == limit {
			return err
		}
	}
	return ctx.Err()
}

func timeoutsCommand(a *cli.App) *cobra.Command {
	var r txn.DeadlineGroupRange
	cmd := &cobra.Command{
		Use:   "timeouts",
		Short: "Show the survival index: the transactions that each invocation expires",
		Long: `Show the groups of the survival index. Each undecided transaction is in the group of the
invocation of the timeout thread that expires it; a group is rolled back as a whole,
without looking at any other group. The groups that expire first come first.`,
		Example:           "  txmgr timeouts\n  txmgr timeouts --limit 10 -o json",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().Uint64Var(&r.From, "from", 0, "only groups that expire at this tick or later")
	cmd.Flags().IntVar(&r.Limit, "limit", txn.DefaultDeadlineGroups, "maximum number of groups, up to "+cell.Int(txn.MaxDeadlineGroups))
	cmd.RunE = a.ReadCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if r.Limit < 1 || r.Limit > txn.MaxDeadlineGroups {
			return output.Usage("", "--limit must be from 1 to %d", txn.MaxDeadlineGroups)
		}
		g, err := c.DeadlineGroups(ctx, r)
		if err != nil {
			return err
		}
		if g.Groups == nil {
			g.Groups = []txn.DeadlineGroup{}
		}
		a.Print.Note("invocation %d of the timeout thread, one every %v", g.Tick, time.Duration(g.Interval))
		if g.Next != 0 {
			a.Print.Note("%d groups are shown; for the next ones: --from %d", len(g.Groups), g.Next)
		}
		t := output.Table{Columns: output.Columns("EXPIRY TICK", "REMAINING INVOCATIONS", "EXPIRES IN", "TRANSACTIONS")}
		var ids []string
		for _, x := range g.Groups {
			ids = append(ids, cell.Int(x.ExpiryTick))
			t.Add(cell.Int(x.ExpiryTick), cell.Int(x.RemainingInvocations), cell.Duration(x.ExpiresIn), cell.Int(x.Transactions))
		}
		return a.Print.Print(output.Document{Value: g, IDs: ids, Tables: []output.Table{t}})
	})
	return cmd
}
