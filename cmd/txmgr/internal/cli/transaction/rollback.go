package transaction

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
)

// RollbackCommand returns txmgr rollback.
func RollbackCommand(a *cli.App) *cobra.Command {
	var reason string
	var noWait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "rollback TX",
		Short: "Roll a transaction back",
		Long: `Roll a transaction back, and wait until every participant has rolled back. To roll back a
transaction that is rolled back already is not an error; one that is decided to commit
cannot be rolled back (exit code 6).`,
		Example: `  txmgr rollback tx_01k9
  txmgr rollback tx_01k9 --reason "customer changed his mind"`,
		Args:              cli.ArgCount(1, 1, "TX"),
		ValidArgsFunction: a.CompleteTX(false),
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "reason; recorded with the transaction")
	f.BoolVar(&noWait, "no-wait", false, "return when the decision is durable")
	f.DurationVar(&timeout, "wait-timeout", 0, "time to wait for the participants (default: --request-timeout)")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		began := time.Now()
		callCtx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		id, err := cli.ResolveID(callCtx, c, args[0])
		if err != nil {
			return err
		}
		out, err := c.Rollback(callCtx, id, reason)
		if err != nil {
			return err
		}
		return waitForOutcome(ctx, a, c, id, out, began, noWait, timeout)
	})
	return cmd
}
