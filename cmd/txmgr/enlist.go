package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

type enlistOptions struct {
	payload  string
	session  string
	printSQL bool
}

func enlistCommand(a *app) *cobra.Command {
	var o enlistOptions
	cmd := &cobra.Command{
		Use:   "enlist TX PARTICIPANT",
		Short: "Enlist a participant: record a branch before it prepares",
		Long: `Enlist a participant in a transaction. The branch is durable when this command is
done, and has a name, the XID, to prepare the work under. Enlisting again answers
the same branch.

With --print-sql the answer is the SQL to run on a PostgreSQL participant, ready
for psql. Only the answer PREPARE TRANSACTION is a vote to commit: PostgreSQL
answers ROLLBACK, and no error, when the transaction had failed.`,
		Example: `  txmgr enlist tx_01k9 bank
  txmgr enlist tx_01k9 bank --print-sql
  txmgr enlist tx_01k9 mailer --payload order.json`,
		Args:              takes(2, 2, "TX and PARTICIPANT"),
		ValidArgsFunction: a.completeTX(true),
	}
	f := cmd.Flags()
	f.StringVar(&o.payload, "payload", "", "a file (- is standard input) that is handed to the participant in every phase")
	f.StringVar(&o.session, "session", "", "the database session that does the work, so that it can be ended at the deadline")
	f.BoolVar(&o.printSQL, "print-sql", false, "print the SQL to run")
	cmd.RunE = a.brief(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := resolve(ctx, c, args[0])
		if err != nil {
			return err
		}
		e := txn.Enlistment{Participant: args[1], Session: o.session}
		if e.Payload, err = a.readPayload(o.payload); err != nil {
			return err
		}
		b, err := c.Enlist(ctx, id, e)
		if err != nil {
			return err
		}
		if o.printSQL {
			return a.printSQL(ctx, c, id, b)
		}
		table := output.Table{Columns: output.Columns("BRANCH", "PARTICIPANT", "XID")}
		table.Add(b.ID.String(), b.Participant, b.XID)
		return a.print.Print(output.Document{Value: viewBranch(b), IDs: []string{b.XID}, Tables: []output.Table{table}})
	})
	return cmd
}

func (a *app) readPayload(name string) ([]byte, error) {
	in := a.in
	switch name {
	case "":
		return nil, nil
	case "-":
	default:
		f, err := os.Open(name)
		if err != nil {
			return nil, output.Usage("", "read the payload: %v", err)
		}
		defer func() { _ = f.Close() }() // only read
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

// printSQL writes what to paste into psql.
func (a *app) printSQL(ctx context.Context, c *client.Client, id txn.ID, b txn.Branch) error {
	kind, err := kindOf(ctx, c, b.Participant)
	if err != nil {
		return err
	}
	if kind != postgres.Kind {
		return output.Usage(fmt.Sprintf("the branch is enlisted; its XID is %s", b.XID), "participant %s is of kind %s, which has no SQL of its own", b.Participant, kind)
	}
	if _, _, _, ours := txn.ParseXID(b.XID); !ours { // letters, digits and underscores: safe in quotes
		return fmt.Errorf("the coordinator answered %q, which is no XID", output.Clean(b.XID))
	}
	sql := fmt.Sprintf(`BEGIN;
-- your statements on %s
PREPARE TRANSACTION '%s';
-- then: txmgr commit %s --vote %s=prepared
`, b.Participant, b.XID, id, b.ID)
	_, err = io.WriteString(a.out, sql)
	return err
}

func kindOf(ctx context.Context, c *client.Client, name string) (string, error) {
	all, err := c.Participants(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range all {
		if p.Name == name {
			return p.Kind, nil
		}
	}
	return "", fmt.Errorf("participant %s: %w", name, txn.ErrNotFound)
}
