package transaction

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

type enlistOptions struct {
	payload  string
	session  string
	printSQL bool
}

// EnlistCommand returns txmgr enlist.
func EnlistCommand(a *cli.App) *cobra.Command {
	var o enlistOptions
	cmd := &cobra.Command{
		Use:   "enlist TX PARTICIPANT",
		Short: "Enlist a participant: record a branch before it prepares",
		Long: `Enlist a participant in a transaction. When the command returns, the branch is durable,
and has a name, the XID, to prepare the work under. Enlisting again returns the same
branch.

With --print-sql the command prints what to run manually. For PostgreSQL that is a script
for psql; only the answer PREPARE TRANSACTION is a vote to commit: PostgreSQL answers
ROLLBACK, and no error, if the transaction had failed. For MariaDB it is a script for the
mariadb client, and its last statement is for the same connection, after the decision. For
a web service it is the calls that the coordinator will make, with the --payload.

Give the answer of the query that is printed first as --session: without it the outcome of
the branch cannot be proved later, and a connection that hangs cannot be ended. Enlisting
again with --session is enough.`,
		Example: `  txmgr enlist tx_01k9 bank
  txmgr enlist tx_01k9 bank --print-sql
  txmgr enlist tx_01k9 stock --session 'conn=31 start=1795292907 table=5f0c7d1e9a3b2846'
  txmgr enlist tx_01k9 mailer --payload order.json`,
		Args:              cli.ArgCount(2, 2, "TX and PARTICIPANT"),
		ValidArgsFunction: a.CompleteTX(true),
	}
	f := cmd.Flags()
	f.StringVar(&o.payload, "payload", "", "file (- is standard input) that is sent to the participant in every phase")
	f.StringVar(&o.session, "session", "", "reference to the database connection that does the work, so that it can be ended at the deadline")
	f.BoolVar(&o.printSQL, "print-sql", false, "print the SQL to run manually, or the calls to a web service")
	cmd.RunE = a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := cli.ResolveID(ctx, c, args[0])
		if err != nil {
			return err
		}
		e := txn.Enlistment{Participant: args[1], SessionRef: o.session}
		if e.Payload, err = readPayload(a, o.payload); err != nil {
			return err
		}
		b, err := c.Enlist(ctx, id, e)
		if err != nil {
			return err
		}
		if o.printSQL {
			return printManualSQL(ctx, a, c, id, b, e)
		}
		table := output.Table{Columns: output.Columns("BRANCH", "PARTICIPANT", "XID")}
		table.Add(b.ID.String(), b.Participant, b.XID)
		return a.Print.Print(output.Document{Value: newBranchView(b), IDs: []string{b.XID}, Tables: []output.Table{table}})
	})
	return cmd
}

func readPayload(a *cli.App, name string) ([]byte, error) {
	in := a.In
	switch name {
	case "":
		return nil, nil
	case "-":
	default:
		f, err := os.Open(name)
		if err != nil {
			return nil, output.Usage("", "read the payload: %v", err)
		}
		defer func() { _ = f.Close() }() // read only
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, txn.MaxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	if len(data) > txn.MaxPayload {
		return nil, output.Usage("pass a reference to it instead", "payload %s has more than %d bytes", name, txn.MaxPayload)
	}
	return data, nil
}
