package transaction

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

// ExtendCommand returns txmgr extend.
func ExtendCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "extend TX DURATION",
		Short: "Extend the timeout of an undecided transaction",
		Long: `Set a new timeout of an undecided transaction, counted from now. A timeout is never
shortened: a transaction whose old deadline is later keeps it.`,
		Example:           `  txmgr extend tx_01k9 1m30s`,
		Args:              cli.ArgCount(2, 2, "TX and DURATION"),
		ValidArgsFunction: a.CompleteTX(false),
		RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
			timeout, err := time.ParseDuration(args[1])
			if err != nil || timeout <= 0 {
				return output.Usage("write it like 30s or 1m30s", "%q is not a positive duration", args[1])
			}
			id, err := cli.ResolveID(ctx, c, args[0])
			if err != nil {
				return err
			}
			if _, err := c.Extend(ctx, id, timeout); err != nil {
				return err
			}
			info, err := c.Get(ctx, id)
			if err != nil {
				return err
			}
			return printExtended(a, info)
		}),
	}
}

func printExtended(a *cli.App, info txn.Info) error {
	table := output.Table{Columns: output.Columns("TX", "TIMEOUT", "EXPIRES IN", "REMAINING INVOCATIONS", "EXPIRY TICK")}
	table.Add(info.ID.String(), info.Timeout.String(), cell.Duration(info.ExpiresIn), cell.Int(info.RemainingInvocations), cell.Int(info.ExpiryTick))
	return a.Print.Print(output.Document{Value: output.Normalize(info), IDs: []string{info.ID.String()}, Tables: []output.Table{table}})
}
