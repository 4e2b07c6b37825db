package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

func indoubtCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doubt",
		Short: "Find, explain and settle what did not come to its end",
		Long: `Find, explain and settle transactions that are decided and do not come to their end,
or of which a branch ended, or may have ended, otherwise than decided: a hazard.

Most of them need nobody: the coordinator goes on trying, for ever. For the rest
begin with doubt explain, which asks the participants and lists what can be done.`,
	}
	groupCommand(cmd)
	cmd.AddCommand(indoubtListCommand(a), indoubtExplainCommand(a), indoubtRetryCommand(a), indoubtResolveCommand(a), indoubtForgetCommand(a))
	return cmd
}

func indoubtListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the transactions that a person may have to look at",
		Long: `List the transactions that a person may have to look at, oldest first: those with a
hazard that nobody has forgotten, and those that are decided and have not come to
their end within 5s, or of which an attempt has failed.

The list is an answer, also when it is not empty: the exit code is 0.`,
		Example:           "  txmgr doubt list\n  for id in $(txmgr doubt list -o id); do txmgr doubt explain $id; done",
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.readCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		found, err := c.InDoubts(ctx)
		if err != nil {
			return err
		}
		return a.printInDoubt(found)
	})
	return cmd
}

func (a *app) printInDoubt(found []txn.InDoubt) error {
	t := output.Table{Columns: []output.Column{
		{Name: "TX"}, {Name: "NAME"}, {Name: "STATE", State: true}, {Name: "HAZARD"}, {Name: "SINCE"}, {Name: "BRANCHES", Wide: true}, {Name: "WHY"},
	}}
	ids := make([]string, len(found))
	values := make([]txn.InDoubt, len(found))
	for i, d := range found {
		d.Info = normalize(d.Info)
		ids[i], values[i] = d.ID.String(), d
		heuristic := ""
		if d.Heuristic != 0 {
			heuristic = d.Heuristic.String()
		}
		t.Add(ids[i], d.Name, d.State.String(), heuristic, formatAge(d.Since), branchSummary(d.Info), d.Why)
	}
	if len(found) > 0 {
		a.print.Note("txmgr doubt explain TX says more, and what can be done")
	}
	return a.print.Print(output.Document{Value: values, IDs: ids, Tables: []output.Table{t}})
}

// formatAge formats the time since t; empty if t is not known.
func formatAge(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return output.Since(time.Since(t)) + " ago"
}

func indoubtExplainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain TX",
		Short: "Tell all about a transaction, and what can be done about it",
		Long: `Tell all that is known about a transaction, in whatever state: what the log decided,
when and why; how each branch is now, as its participant says when it is asked; what
it has locked there, and who waits for that; what the coordinator has tried; and what
a person can do, with the command to paste.

It changes nothing.`,
		Example:           "  txmgr doubt explain tx_01k9\n  txmgr doubt explain tx_01k9 -o json",
		Args:              argCount(1, 1, "TX"),
		ValidArgsFunction: a.completeInDoubt(false),
		RunE: a.fanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := resolveID(ctx, c, args[0])
			if err != nil {
				return err
			}
			e, err := c.Explain(ctx, id)
			if err != nil {
				return err
			}
			return a.printExplanation(e)
		}),
	}
}

func indoubtRetryCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "retry TX | --all",
		Short: "Try again now, without waiting for the next attempt",
		Long: `Drive the branches of a transaction now, whatever the wait until their next attempt.
A branch whose end is unknown is asked for proof once more. Nothing is decided by
it, so it can do no harm.

The command does not wait for the end: txmgr wait TX does.`,
		Example:           "  txmgr doubt retry tx_01k9\n  txmgr doubt retry --all",
		Args:              argCount(0, 1, "TX, or --all"),
		ValidArgsFunction: a.completeInDoubt(false),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that txmgr doubt list shows")
	cmd.RunE = a.fanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if all == (len(args) == 1) {
			return output.Usage("txmgr doubt retry TX, or txmgr doubt retry --all", "want either TX or --all")
		}
		if all {
			return a.retryAll(ctx, c)
		}
		id, err := resolveID(ctx, c, args[0])
		if err != nil {
			return err
		}
		if err := c.Retry(ctx, id); err != nil {
			return explainNext(id, err)
		}
		return a.printRetried([]string{id.String()})
	})
	return cmd
}

// retryAll lists the transactions first, so that it can report which ones are retried.
func (a *app) retryAll(ctx context.Context, c *client.Client) error {
	found, err := c.InDoubts(ctx)
	if err != nil {
		return err
	}
	ids := []string{}
	for _, d := range found {
		if !d.State.Finished() {
			ids = append(ids, d.ID.String())
		}
	}
	if err := c.Retry(ctx, txn.ID{}); err != nil {
		return err
	}
	return a.printRetried(ids)
}

func (a *app) printRetried(ids []string) error {
	type retried struct {
		ID      string `json:"id"`
		Retried bool   `json:"retried"`
	}
	values := make([]retried, len(ids))
	t := output.Table{Columns: output.Columns("TX", "RETRIED")}
	for i, id := range ids {
		values[i] = retried{id, true}
		t.Add(id, "yes")
	}
	return a.print.Print(output.Document{Value: values, IDs: ids, Tables: []output.Table{t}})
}

// explainNext adds to a refusal the command that explains the reasons.
func explainNext(id txn.ID, err error) error {
	if !errors.Is(err, txn.ErrConflict) {
		return err
	}
	f := *output.Explain(err)
	f.Next = "txmgr doubt explain " + id.String()
	return &f
}

// completeInDoubt completes a transaction: those in doubt, or any if there is none.
func (a *app) completeInDoubt(heuristicsOnly bool) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client, args []string, word string) (out []string) {
		if len(args) > 0 {
			return nil
		}
		found, err := c.InDoubts(ctx)
		if err != nil {
			return nil
		}
		for _, d := range found {
			if !heuristicsOnly || d.Heuristic != 0 {
				out = append(out, cobra.CompletionWithDesc(d.ID.String(), stateWithHeuristic(d.State, d.Heuristic)))
			}
		}
		if len(out) == 0 {
			return transactionIDs(ctx, c, word)
		}
		return out
	})
}
