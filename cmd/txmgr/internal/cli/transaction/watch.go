package transaction

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// WatchCommand returns txmgr watch.
func WatchCommand(a *cli.App) *cobra.Command {
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

func watch(ctx context.Context, a *cli.App, c *client.Client, filter admin.Filter, limit int) error {
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
