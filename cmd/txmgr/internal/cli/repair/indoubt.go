package repair

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// InDoubtCommand returns txmgr indoubt.
func InDoubtCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "indoubt",
		Short: "List, explain and resolve transactions in doubt",
		Long: `List, explain and resolve transactions in doubt: those that are decided and do not
complete, and those with a heuristic outcome: a branch ended, or may have ended,
otherwise than decided.

Most of them need no operator: the coordinator retries without end. For the others begin
with txmgr indoubt explain, which asks the participants and lists the possible actions.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(indoubtListCommand(a), indoubtExplainCommand(a), indoubtRetryCommand(a), indoubtResolveCommand(a), indoubtForgetCommand(a))
	return cmd
}

func indoubtListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the transactions that may need an operator",
		Long: `List the transactions that may need an operator, oldest first: those with a heuristic
outcome that is not forgotten, and those that are decided and have not completed within
5s, or of which an attempt has failed.

The exit code is 0 also if the list is not empty.`,
		Example:           "  txmgr indoubt list\n  for id in $(txmgr indoubt list -o id); do txmgr indoubt explain $id; done",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.ReadCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		found, err := c.Admin().InDoubts(ctx)
		if err != nil {
			return err
		}
		return printInDoubt(a, found)
	})
	return cmd
}

func printInDoubt(a *cli.App, found []admin.InDoubt) error {
	t := output.Table{Columns: []output.Column{
		{Name: "TX"}, {Name: "NAME"}, {Name: "STATE", State: true}, {Name: "HEURISTIC"}, {Name: "SINCE"}, {Name: "BRANCHES", Wide: true}, {Name: "WHY"},
	}}
	ids := make([]string, len(found))
	values := make([]admin.InDoubt, len(found))
	for i, d := range found {
		d.Info = output.Normalize(d.Info)
		ids[i], values[i] = d.ID.String(), d
		heuristic := ""
		if d.Heuristic != 0 {
			heuristic = d.Heuristic.String()
		}
		t.Add(ids[i], d.Name, d.State.String(), heuristic, cell.Age(d.Since), cell.Branches(d.Info), d.Why)
	}
	if len(found) == admin.MaxInDoubt {
		a.Print.Note("the list has the %d oldest: there may be more", admin.MaxInDoubt)
	}
	if len(found) > 0 {
		a.Print.Note("txmgr indoubt explain TX shows the details and the possible actions")
	}
	return a.Print.Print(output.Document{Value: values, IDs: ids, Tables: []output.Table{t}})
}

func indoubtExplainCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "explain TX",
		Short: "Explain a transaction and the possible actions",
		Long: `Show all that is known about a transaction in any state: what the log decided, when and
why; the present state of each branch, as its participant reports it when it is asked;
what the branch has locked there, and who waits for it; what the coordinator has tried;
and what an operator can do, with the command to paste.

It changes nothing.`,
		Example:           "  txmgr indoubt explain tx_01k9\n  txmgr indoubt explain tx_01k9 -o json",
		Args:              cli.ArgCount(1, 1, "TX"),
		ValidArgsFunction: completeInDoubt(a, false),
		RunE: a.FanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := cli.ResolveID(ctx, c, args[0])
			if err != nil {
				return err
			}
			e, err := c.Admin().Explain(ctx, id)
			if err != nil {
				return err
			}
			return printExplanation(a, e)
		}),
	}
}

func indoubtRetryCommand(a *cli.App) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "retry TX | --all",
		Short: "Retry now, without waiting for the next attempt",
		Long: `Retry the branches of a transaction now, without waiting for their next attempt. The
participant of a branch whose end is unknown is asked for proof once more. A retry decides
nothing, so it can do no harm.

The command does not wait for the transaction to complete: txmgr wait TX does.`,
		Example:           "  txmgr indoubt retry tx_01k9\n  txmgr indoubt retry --all",
		Args:              cli.ArgCount(0, 1, "TX, or --all"),
		ValidArgsFunction: completeInDoubt(a, false),
	}
	cmd.Flags().BoolVar(&all, "all", false, "retry all transactions that txmgr indoubt list shows")
	cmd.RunE = a.FanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if all == (len(args) == 1) {
			return output.Usage("txmgr indoubt retry TX, or txmgr indoubt retry --all", "want either TX or --all")
		}
		if all {
			return retryAll(ctx, a, c)
		}
		id, err := cli.ResolveID(ctx, c, args[0])
		if err != nil {
			return err
		}
		if err := c.Admin().Retry(ctx, id); err != nil {
			return explainNext(id, err)
		}
		return printRetried(a, []string{id.String()})
	})
	return cmd
}

// retryAll lists the transactions first, so that it can report which ones are retried.
func retryAll(ctx context.Context, a *cli.App, c *client.Client) error {
	found, err := c.Admin().InDoubts(ctx)
	if err != nil {
		return err
	}
	ids := []string{}
	for _, d := range found {
		if !d.State.Finished() {
			ids = append(ids, d.ID.String())
		}
	}
	if err := c.Admin().Retry(ctx, txn.ID{}); err != nil {
		return err
	}
	return printRetried(a, ids)
}

func printRetried(a *cli.App, ids []string) error {
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
	return a.Print.Print(output.Document{Value: values, IDs: ids, Tables: []output.Table{t}})
}

// explainNext adds to a refusal the command that explains the reasons.
func explainNext(id txn.ID, err error) error {
	if !errors.Is(err, txn.ErrConflict) {
		return err
	}
	f := *output.Explain(err)
	f.Hint = "txmgr indoubt explain " + id.String()
	return &f
}

// completeInDoubt completes a transaction: those in doubt, or any if there is none.
func completeInDoubt(a *cli.App, heuristicsOnly bool) cobra.CompletionFunc {
	return a.Complete(func(ctx context.Context, c *client.Client, args []string, word string) (out []string) {
		if len(args) > 0 {
			return nil
		}
		found, err := c.Admin().InDoubts(ctx)
		if err != nil {
			return nil
		}
		for _, d := range found {
			if !heuristicsOnly || d.Heuristic != 0 {
				out = append(out, cobra.CompletionWithDesc(d.ID.String(), cell.State(d.State, d.Heuristic)))
			}
		}
		if len(out) == 0 {
			return cli.TransactionIDs(ctx, c, word)
		}
		return out
	})
}
