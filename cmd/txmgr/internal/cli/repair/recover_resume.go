package repair

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

func recoverResumeCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "resume --reason TEXT",
		Short: "Resume recovery in a restored cluster",
		Long: `Resume recovery in a cluster that was restored from a backup. Decisions that were made
after the backup are not in it: a branch that was to commit since then looks like an
orphan, and would be rolled back. Therefore recovery is paused in a restored cluster: it
completes no branch and begins no transaction until an operator resumes recovery.

Check first: txmgr recover scan shows the prepared branches at the participants, and what
the cluster would do with them; txmgr indoubt list and explain show the details.`,
		Example:           `  txmgr recover resume --reason "compared with the databases, ticket 812"`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required, recorded in the audit")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := cli.RequireReason(reason); err != nil {
			return err
		}
		if err := a.Confirm("Resume recovery in the restored cluster: complete, roll back and sweep branches?"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		if err := c.Admin().ResumeRecovery(ctx, a.OperatorName(), reason); err != nil {
			return err
		}
		s, err := c.Admin().Status(ctx)
		if err != nil {
			return err
		}
		t := output.Table{Columns: output.Columns("CLUSTER", "INCARNATION", "RESUMED")}
		t.Add(s.Cluster, cell.Int(s.Incarnation), "yes")
		return a.Print.Print(output.Document{
			Value: map[string]any{"cluster": s.Cluster, "incarnation": s.Incarnation, "resumed": true}, IDs: []string{s.Cluster}, Tables: []output.Table{t},
		})
	})
	return cmd
}
