package repair

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

func indoubtForgetCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "forget TX --reason TEXT",
		Short: "Remove a heuristic outcome after the damage is repaired",
		Long: `Remove the heuristic outcome of a finished transaction. The transaction is no longer
listed, and its outcome is kept for the retention time from now on. The action and its
reason stay in the audit.

The command repairs nothing: repair the damage first.`,
		Example:           `  txmgr indoubt forget tx_01k9 --reason "corrected the balance, ticket 812"`,
		Args:              cli.ArgCount(1, 1, "TX"),
		ValidArgsFunction: completeInDoubt(a, true),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what was done about it; required, recorded in the audit")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		id, info, err := resolveTarget(ctx, a, c, args[0], reason)
		if err != nil {
			return err
		}
		if err := a.Confirm(fmt.Sprintf("Forget the heuristic outcome of %s (%s)?", id, output.OrDash(info.Heuristic.String()))); err != nil {
			return err
		}
		calling, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		if _, err := c.Admin().Forget(calling, id, a.OperatorName(), reason); err != nil {
			return explainNext(id, err)
		}
		return printResolved(ctx, a, c, id, "FORGOTTEN")
	})
	return cmd
}
