package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn/admin"
)

func auditCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show operators' actions",
		Long: `Show what operators did to transactions, participants, tokens and nodes, as recorded in
the log: who, when and why.`,
	}
	groupCommand(cmd)
	cmd.AddCommand(auditListCommand(a))
	return cmd
}

func auditListCommand(a *app) *cobra.Command {
	var tx string
	var since time.Duration
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List operators' actions, oldest first",
		Long: `List operators' actions, oldest first: heuristic outcomes resolved and forgotten,
transactions rolled back by an operator, participants and tokens added and removed,
nodes removed, and recovery resumed in a restored cluster. The log keeps the newest
10,000 of these records, independently of the transactions.`,
		Example:           "  txmgr audit list\n  txmgr audit list --tx tx_01k9\n  txmgr audit list --since 24h -o jsonl",
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&tx, "tx", "", "only actions on this transaction")
	f.DurationVar(&since, "since", 0, "only actions within this time until now")
	f.IntVar(&limit, "limit", 1000, "maximum number of records, the newest ones")
	_ = cmd.RegisterFlagCompletionFunc("tx", a.complete(func(ctx context.Context, c *client.Client, _ []string, word string) []string {
		return transactionIDs(ctx, c, word)
	})) // the flag is there
	cmd.RunE = a.readCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if since < 0 || limit < 1 {
			return output.Usage("", "--since must not be negative, --limit must be positive")
		}
		filter := admin.AuditFilter{Since: since, Limit: limit}
		var err error
		if tx != "" {
			if filter.ID, err = resolveID(ctx, c, tx); err != nil {
				return err
			}
		}
		found, err := c.Audit(ctx, filter)
		if err != nil {
			return err
		}
		return a.printAudit(found)
	})
	return cmd
}

func (a *app) printAudit(found []admin.AuditRecord) error {
	if found == nil {
		found = []admin.AuditRecord{}
	}
	t := output.Table{Columns: []output.Column{
		{Name: "SEQ", Wide: true},
		{Name: "TIME"},
		{Name: "TICK", Wide: true},
		{Name: "LOG INDEX", Wide: true},
		{Name: "WHO"},
		{Name: "ACTION"},
		{Name: "TX"},
		{Name: "SUBJECT"},
		{Name: "REASON"},
	}}
	ids := make([]string, len(found))
	for i, r := range found {
		ids[i] = formatInt(r.Seq)
		tx := ""
		if !r.ID.IsZero() {
			tx = r.ID.String()
		}
		t.Add(ids[i], formatTime(r.Time), formatInt(r.Tick), formatInt(r.Index), r.By, r.Action, tx, r.Subject, r.Reason)
	}
	return a.print.Print(output.Document{Value: found, IDs: ids, Tables: []output.Table{t}})
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
