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
		Short: "Let a restored cluster act again",
		Long: `Let a cluster that was restored from a backup act again. What was decided after the
backup was taken is not in it: a branch that was told to commit since then looks left
behind, and would be rolled back. So a restored cluster is held: it drives nothing to
its end, and begins nothing, until you say that it may.

Look first: txmgr recover scan shows what the participants hold prepared, and what the
cluster would do with it; txmgr doubt list and explain say more.`,
		Example:           `  txmgr recover resume --reason "compared with the books, ticket 812"`,
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why it may; required, the audit keeps it")
	cmd.RunE = a.clientCmd(func(ctx context.Context, c *client.Client, _ []string) error {
		if err := requireReason(reason); err != nil {
			return err
		}
		if err := a.confirm("Let the restored cluster act: finish, roll back and sweep what it finds?"); err != nil {
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
