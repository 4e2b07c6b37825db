package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

func recoverResumeCommand(a *app) *cobra.Command {
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
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required, recorded in the audit")
	cmd.RunE = a.clientCmd(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := requireReason(reason); err != nil {
			return err
		}
		if err := a.confirm("Resume recovery in the restored cluster: complete, roll back and sweep branches?"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, a.requestTimeout)
		defer cancel()
		if err := c.ResumeRecovery(ctx, a.operatorName(), reason); err != nil {
			return err
		}
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		t := output.Table{Columns: output.Columns("CLUSTER", "INCARNATION", "RESUMED")}
		t.Add(s.Cluster, formatInt(s.Incarnation), "yes")
		return a.print.Print(output.Document{
			Value: map[string]any{"cluster": s.Cluster, "incarnation": s.Incarnation, "resumed": true}, IDs: []string{s.Cluster}, Tables: []output.Table{t},
		})
	})
	return cmd
}
