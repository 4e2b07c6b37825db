package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

func sessionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Roll back what a program leaves behind that is gone",
		Long: `A session is a sign of life. What is begun in it (txmgr begin --session, exec --session) is
rolled back when nothing has been heard of the session for its time to live, long before the
timeout of the transaction. The Go client keeps its sessions alive by itself.`,
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
		Long: `Open a session. Somebody has to keep it alive from now on. The time to live is rounded up, to
1, 2, 4, 8 seconds and so on; the answer says what was granted.

With -q only the id is printed.`,
		Example: `  id=$(txmgr session open -q --ttl 8s)
  while txmgr session keep-alive -q "$id"; do sleep 2; done &`,
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "a name for people")
	f.DurationVar(&o.TTL, "ttl", 0, "how long it may be silent, 1s to 1h (default: 16s)")
	f.StringVar(&id, "id", "", "the id to give it, so that this command can be repeated (default: a new one)")
	cmd.RunE = a.shortCmd(func(ctx context.Context, c *client.Client, _ []string) (err error) {
		if cmd.Flags().Changed("ttl") && o.TTL == 0 {
			return output.Usage("leave it out for the default, 16s", "--ttl 0 is no time")
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
		Short: "Show that a session lives",
		Long: `Show that a session lives: it will not expire before its time to live is over, counted from
now. When it has ended, the exit code is 5.`,
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
		Short: "End a session, and roll back what is undecided in it",
		Long: `End a session. What was begun in it and is undecided is rolled back at once, as if each
transaction had been rolled back by its application.`,
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
	var f txn.SessionFilter
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the sessions",
		Long:              "List the sessions that are open; with --ended also those that are closed or expired, as long\nas they are remembered.",
		Example:           "  txmgr session list --ended -o wide",
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&f.Ended, "ended", false, "those too that have ended")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "at most so many, the newest (default: 1,000)")
	cmd.RunE = a.readCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if f.Limit < 0 {
			return output.Usage("leave it out for the default", "--limit %d is negative", f.Limit)
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
func (a *app) printSession(s txn.ClientSession) error {
	return a.print.Print(output.Document{Value: s, IDs: []string{s.ID.String()}, Tables: []output.Table{sessionTable([]txn.ClientSession{s})}})
}

func (a *app) printSessions(all []txn.ClientSession) error {
	if all == nil {
		all = []txn.ClientSession{}
	}
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.ID.String()
	}
	return a.print.Print(output.Document{Value: all, IDs: ids, Tables: []output.Table{sessionTable(all)}})
}

func sessionTable(all []txn.ClientSession) output.Table {
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
	f.Next = "txmgr session list --ended shows the sessions; txmgr session open makes one"
	return &f
}

// completeSessions completes the first argument, or a flag, with the open sessions.
func (a *app) completeSessions(flag bool) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client, args []string, _ string) (out []string) {
		if len(args) > 0 && !flag {
			return nil
		}
		all, err := c.Sessions(ctx, txn.SessionFilter{})
		if err != nil {
			return nil
		}
		for _, s := range all {
			out = append(out, cobra.CompletionWithDesc(s.ID.String(), strings.TrimSpace(s.State.String()+" "+output.Sanitize(s.Name))))
		}
		return out
	})
}
