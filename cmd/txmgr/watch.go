package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func watchCommand(a *app) *cobra.Command {
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
		Args:              argCount(0, 1, "at most TX"),
		ValidArgsFunction: a.completeTX(false),
	}
	o.flags(a, cmd)
	cmd.Flags().IntVar(&limit, "count", 0, "end after this number of changes (default: never)")
	cmd.RunE = a.clientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		filter, err := o.filter()
		if err != nil {
			return err
		}
		if limit < 0 {
			return output.Usage("", "--count is %d", limit)
		}
		if len(args) == 1 {
			callCtx, cancel := context.WithTimeout(ctx, a.requestTimeout)
			defer cancel()
			id, err := resolveID(callCtx, c, args[0])
			if err != nil {
				return err
			}
			filter.Prefix = id.String()
		}
		return a.watch(ctx, c, filter, limit)
	})
	return cmd
}

func (a *app) watch(ctx context.Context, c *client.Client, filter admin.Filter, limit int) error {
	s := a.print.Stream(
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
			stateWithHeuristic(e.State, e.Heuristic), cause, formatInt(e.Tick), e.Name)
		if seen++; err != nil || seen == limit {
			return err
		}
	}
	return ctx.Err()
}

func timeoutsCommand(a *app) *cobra.Command {
	var r admin.DeadlineGroupRange
	cmd := &cobra.Command{
		Use:   "timeouts",
		Short: "Show the survival index: the transactions that each invocation expires",
		Long: `Show the groups of the survival index. Each undecided transaction is in the group of the
invocation of the timeout thread that expires it; a group is rolled back as a whole,
without looking at any other group. The groups that expire first come first.`,
		Example:           "  txmgr timeouts\n  txmgr timeouts --limit 10 -o json",
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().Uint64Var(&r.From, "from", 0, "only groups that expire at this tick or later")
	cmd.Flags().IntVar(&r.Limit, "limit", admin.DefaultDeadlineGroups, "maximum number of groups, up to "+formatInt(admin.MaxDeadlineGroups))
	cmd.RunE = a.readCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if r.Limit < 1 || r.Limit > admin.MaxDeadlineGroups {
			return output.Usage("", "--limit must be from 1 to %d", admin.MaxDeadlineGroups)
		}
		g, err := c.DeadlineGroups(ctx, r)
		if err != nil {
			return err
		}
		if g.Groups == nil {
			g.Groups = []admin.DeadlineGroup{}
		}
		a.print.Note("invocation %d of the timeout thread, one every %v", g.Tick, time.Duration(g.Interval))
		if g.Next != 0 {
			a.print.Note("%d groups are shown; for the next ones: --from %d", len(g.Groups), g.Next)
		}
		t := output.Table{Columns: output.Columns("EXPIRY TICK", "REMAINING INVOCATIONS", "EXPIRES IN", "TRANSACTIONS")}
		var ids []string
		for _, x := range g.Groups {
			ids = append(ids, formatInt(x.ExpiryTick))
			t.Add(formatInt(x.ExpiryTick), formatInt(x.RemainingInvocations), formatDuration(x.ExpiresIn), formatInt(x.Transactions))
		}
		return a.print.Print(output.Document{Value: g, IDs: ids, Tables: []output.Table{t}})
	})
	return cmd
}
