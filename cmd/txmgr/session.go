package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func sessionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Manage client sessions (automatic rollback on client failure)",
		Long: `Manage client sessions. A session is a client's lease with a time to live. The
transactions that are begun in it (txmgr begin --session, exec --session) are rolled back,
if undecided, when the session is not renewed within its time to live, long before their
own timeouts. The Go client renews its sessions itself.`,
	}
	groupCommand(cmd)
	cmd.AddCommand(sessionOpenCommand(a), sessionKeepAliveCommand(a), sessionCloseCommand(a), sessionListCommand(a))
	return cmd
}

func sessionOpenCommand(a *app) *cobra.Command {
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
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "name, for display")
	f.DurationVar(&o.TTL, "ttl", 0, "time to live: the session expires unless it is renewed within it, 1s to 1h (default: 16s)")
	f.StringVar(&id, "id", "", "id of the session, so that this command can be repeated (default: a new one)")
	cmd.RunE = a.shortCmd(func(ctx context.Context, c *client.Client, _ []string) (err error) {
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
			return explainSession(err)
		}
		if a.quiet && !a.print.Format.Structured() {
			a.print.Format = output.IDFormat
		}
		return a.printSession(s)
	})
	return cmd
}

func sessionKeepAliveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "keep-alive SESSION",
		Short: "Renew a session",
		Long: `Renew a session: it does not expire before its time to live has passed, counted from now.
If the session has ended, the exit code is 5.`,
		Example:           `  txmgr session keep-alive "$id"`,
		Args:              argCount(1, 1, "SESSION"),
		ValidArgsFunction: a.completeSessions(false),
		RunE: a.shortCmd(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := txn.ParseSessionID(args[0])
			if err != nil {
				return err
			}
			s, err := c.KeepAlive(ctx, id)
			if err != nil {
				return explainSession(err)
			}
			return a.printSession(s)
		}),
	}
}

func sessionCloseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "close SESSION",
		Short: "Close a session, and roll back its undecided transactions",
		Long: `Close a session. Its undecided transactions are rolled back at once, as if their
application had rolled each of them back.`,
		Example:           `  txmgr session close "$id"`,
		Args:              argCount(1, 1, "SESSION"),
		ValidArgsFunction: a.completeSessions(false),
		RunE: a.shortCmd(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := txn.ParseSessionID(args[0])
			if err != nil {
				return err
			}
			if err := c.CloseSession(ctx, id); err != nil {
				return explainSession(err)
			}
			t := output.Table{Columns: output.Columns("SESSION", "STATE")}
			t.Add(id.String(), txn.SessionClosed.String())
			value := map[string]any{"id": id.String(), "state": txn.SessionClosed.String()}
			return a.print.Print(output.Document{Value: value, IDs: []string{id.String()}, Tables: []output.Table{t}})
		}),
	}
}

func sessionListCommand(a *app) *cobra.Command {
	var f admin.SessionFilter
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the sessions",
		Long:              "List the sessions that are open; with --ended also those that were closed or have expired, as\nlong as they are remembered.",
		Example:           "  txmgr session list --ended -o wide",
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&f.Ended, "ended", false, "list also the sessions that have ended")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of sessions, the newest ones (default: 1,000)")
	cmd.RunE = a.readCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if f.Limit < 0 {
			return output.Usage("omit it for the default", "--limit %d is negative", f.Limit)
		}
		all, err := c.Sessions(ctx, f)
		if err != nil {
			return err
		}
		return a.printSessions(all)
	})
	return cmd
}

// printSession prints one session, as an object.
func (a *app) printSession(s admin.ClientSession) error {
	return a.print.Print(output.Document{Value: s, IDs: []string{s.ID.String()}, Tables: []output.Table{sessionTable([]admin.ClientSession{s})}})
}

func (a *app) printSessions(all []admin.ClientSession) error {
	if all == nil {
		all = []admin.ClientSession{}
	}
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.ID.String()
	}
	return a.print.Print(output.Document{Value: all, IDs: ids, Tables: []output.Table{sessionTable(all)}})
}

func sessionTable(all []admin.ClientSession) output.Table {
	t := output.Table{Columns: []output.Column{
		{Name: "SESSION"}, {Name: "NAME"}, {Name: "STATE"}, {Name: "TTL"}, {Name: "TRANSACTIONS"}, {Name: "OPENED", Wide: true}, {Name: "ENDED AT TICK", Wide: true},
	}}
	for _, s := range all {
		ended := ""
		if s.EndedTick != 0 {
			ended = formatInt(s.EndedTick)
		}
		t.Add(s.ID.String(), s.Name, s.State.String(), time.Duration(s.TTL).String(), formatInt(s.Transactions), formatTime(s.Opened), ended)
	}
	return t
}

// explainSession adds the next step to the error that a session does not exist.
func explainSession(err error) error {
	if txn.CodeOf(err) != txn.CodeNotFound {
		return err
	}
	f := *output.Explain(err)
	f.Hint = "txmgr session list --ended shows the sessions; txmgr session open opens a new one"
	return &f
}

// completeSessions completes the first argument, or a flag, with the open sessions.
func (a *app) completeSessions(flag bool) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client, args []string, _ string) (out []string) {
		if len(args) > 0 && !flag {
			return nil
		}
		all, err := c.Sessions(ctx, admin.SessionFilter{})
		if err != nil {
			return nil
		}
		for _, s := range all {
			out = append(out, cobra.CompletionWithDesc(s.ID.String(), strings.TrimSpace(s.State.String()+" "+output.Sanitize(s.Name))))
		}
		return out
	})
}
