package repair

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

// AuditCommand returns txmgr audit.
func AuditCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show operators' actions",
		Long: `Show what operators did to transactions, participants, tokens and nodes, as recorded in
the log: who, when and why.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(auditListCommand(a))
	return cmd
}

func auditListCommand(a *cli.App) *cobra.Command {
	var tx string
	var since time.Duration
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List operators' actions, oldest first",
		Long: `List operators' actions, oldest first: heuristic outcomes resolved and forgotten,
transactions rolled back by an operator, participants, tokens and nodes added and removed,
transfers of the leadership that were asked for, and recovery resumed in a restored
cluster. The log keeps the newest 10,000 of these records, independently of the
transactions.`,
		Example:           "  txmgr audit list\n  txmgr audit list --tx tx_01k9\n  txmgr audit list --since 24h -o jsonl",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&tx, "tx", "", "only actions on this transaction")
	f.DurationVar(&since, "since", 0, "only actions within this time until now")
	f.IntVar(&limit, "limit", 1000, "maximum number of records, the newest ones")
	_ = cmd.RegisterFlagCompletionFunc("tx", a.Complete(func(ctx context.Context, c *client.Client, _ []string, word string) []string {
		return cli.TransactionIDs(ctx, c, word)
	})) // the flag is there
	cmd.RunE = a.ReadCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if since < 0 || limit < 1 {
			return output.Usage("", "--since must not be negative, --limit must be positive")
		}
		filter := admin.AuditFilter{Since: since, Limit: limit}
		var err error
		if tx != "" {
			if filter.ID, err = cli.ResolveID(ctx, c, tx); err != nil {
				return err
			}
		}
		found, err := c.Admin().Audit(ctx, filter)
		if err != nil {
			return err
		}
		return printAudit(a, found)
	})
	return cmd
}

func printAudit(a *cli.App, found []admin.AuditRecord) error {
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
		ids[i] = cell.Int(r.Seq)
		tx := ""
		if !r.ID.IsZero() {
			tx = r.ID.String()
		}
		t.Add(ids[i], cell.Time(r.Time), cell.Int(r.Tick), cell.Int(r.Index), r.By, r.Action, tx, r.Subject, r.Reason)
	}
	return a.Print.Print(output.Document{Value: found, IDs: ids, Tables: []output.Table{t}})
}
