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
	"github.com/txmgr/txmgr/txn/admin"
)

// SessionCommand returns txmgr session.
func SessionCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Manage client sessions (automatic rollback on client failure)",
		Long: `Manage client sessions. A session is a client's lease with a time to live. The
transactions that are begun in it (txmgr begin --session, exec --session) are rolled back,
if undecided, when the session is not renewed within its time to live, long before their
own timeouts. The Go client renews its sessions itself.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(sessionOpenCommand(a), sessionKeepAliveCommand(a), sessionCloseCommand(a), sessionListCommand(a))
	return cmd
}

func sessionOpenCommand(a *cli.App) *cobra.Command {
	var o txn.SessionOptions
	var id string
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open a session",
		Long: `Open a session. The client has to renew it from now on. The time to live is rounded up, to
1, 2, 4, 8 seconds and so on; the answer contains the time that was granted.

With -q only the id is printed.`,
		Example: `  id=$(txmgr session open -q --ttl 8s)
  while txmgr session keep-alive -q "$id"; do sleep 2; done &`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "name, for display")
	f.DurationVar(&o.TTL, "ttl", 0, "time to live: the session expires unless it is renewed within it, 1s to 1h (default: 16s)")
	f.StringVar(&id, "id", "", "id of the session, so that this command can be repeated (default: a new one)")
	cmd.RunE = a.ShortCmd(func(ctx context.Context, c *client.Client, _ []string) (err error) {
		if cmd.Flags().Changed("ttl") && o.TTL == 0 {
			return output.Usage("omit it for the default, 16s", "--ttl 0 is not positive")
		}
		if id != "" {
			if o.ID, err = txn.ParseSessionID(id); err != nil {
				return err
			}
		}
		if err := o.Check(); err != nil {
			return err
		}
		s, err := c.CreateSession(ctx, o)
		if err != nil {
			return cli.ExplainSession(err)
		}
		if a.Quiet && !a.Print.Format.Structured() {
			a.Print.Format = output.IDFormat
		}
		return printSession(a, s)
	})
	return cmd
}

func sessionKeepAliveCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "keep-alive SESSION",
		Short: "Renew a session",
		Long: `Renew a session: it does not expire before its time to live has passed, counted from now.
If the session has ended, the exit code is 5.`,
		Example:           `  txmgr session keep-alive "$id"`,
		Args:              cli.ArgCount(1, 1, "SESSION"),
		ValidArgsFunction: a.CompleteSessions(false),
		RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := txn.ParseSessionID(args[0])
			if err != nil {
				return err
			}
			s, err := c.KeepAlive(ctx, id)
			if err != nil {
				return cli.ExplainSession(err)
			}
			return printSession(a, s)
		}),
	}
}

func sessionCloseCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "close SESSION",
		Short: "Close a session, and roll back its undecided transactions",
		Long: `Close a session. Its undecided transactions are rolled back at once, as if their
application had rolled each of them back.`,
		Example:           `  txmgr session close "$id"`,
		Args:              cli.ArgCount(1, 1, "SESSION"),
		ValidArgsFunction: a.CompleteSessions(false),
		RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := txn.ParseSessionID(args[0])
			if err != nil {
				return err
			}
			if err := c.CloseSession(ctx, id); err != nil {
				return cli.ExplainSession(err)
			}
			t := output.Table{Columns: output.Columns("SESSION", "STATE")}
			t.Add(id.String(), txn.SessionClosed.String())
			value := map[string]any{"id": id.String(), "state": txn.SessionClosed.String()}
			return a.Print.Print(output.Document{Value: value, IDs: []string{id.String()}, Tables: []output.Table{t}})
		}),
	}
}

func sessionListCommand(a *cli.App) *cobra.Command {
	var f admin.SessionFilter
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the sessions",
		Long:              "List the sessions that are open; with --ended also those that were closed or have expired, as\nlong as they are remembered.",
		Example:           "  txmgr session list --ended -o wide",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&f.Ended, "ended", false, "list also the sessions that have ended")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of sessions, the newest ones (default: 1,000)")
	cmd.RunE = a.ReadCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if f.Limit < 0 {
			return output.Usage("omit it for the default", "--limit %d is negative", f.Limit)
		}
		all, err := c.Admin().Sessions(ctx, f)
		if err != nil {
			return err
		}
		return printSessions(a, all)
	})
	return cmd
}

// printSession prints one session, as an object.
func printSession(a *cli.App, s admin.ClientSession) error {
	return a.Print.Print(output.Document{Value: s, IDs: []string{s.ID.String()}, Tables: []output.Table{sessionTable([]admin.ClientSession{s})}})
}

func printSessions(a *cli.App, all []admin.ClientSession) error {
	if all == nil {
		all = []admin.ClientSession{}
	}
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.ID.String()
	}
	return a.Print.Print(output.Document{Value: all, IDs: ids, Tables: []output.Table{sessionTable(all)}})
}

func sessionTable(all []admin.ClientSession) output.Table {
	t := output.Table{Columns: []output.Column{
		{Name: "SESSION"}, {Name: "NAME"}, {Name: "STATE"}, {Name: "TTL"}, {Name: "TRANSACTIONS"}, {Name: "OPENED", Wide: true}, {Name: "ENDED AT TICK", Wide: true},
	}}
	for _, s := range all {
		ended := ""
		if s.EndedTick != 0 {
			ended = cell.Int(s.EndedTick)
		}
		t.Add(s.ID.String(), s.Name, s.State.String(), time.Duration(s.TTL).String(), cell.Int(s.Transactions), cell.Time(s.Opened), ended)
	}
	return t
}
