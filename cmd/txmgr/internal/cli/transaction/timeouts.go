package transaction

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn/admin"
)

// TimeoutsCommand returns txmgr timeouts.
func TimeoutsCommand(a *cli.App) *cobra.Command {
	var r admin.DeadlineGroupRange
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
	cmd.Flags().IntVar(&r.Limit, "limit", admin.DefaultDeadlineGroups, "maximum number of groups, up to "+cell.Int(admin.MaxDeadlineGroups))
	cmd.RunE = a.ReadCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if r.Limit < 1 || r.Limit > admin.MaxDeadlineGroups {
			return output.Usage("", "--limit must be from 1 to %d", admin.MaxDeadlineGroups)
		}
		g, err := c.Admin().DeadlineGroups(ctx, r)
		if err != nil {
			return err
		}
		if g.Groups == nil {
			g.Groups = []admin.DeadlineGroup{}
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
