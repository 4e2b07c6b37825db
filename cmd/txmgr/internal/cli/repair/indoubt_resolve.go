package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

type resolveOptions struct {
	commit, rollback bool
	branch, reason   string
}

func indoubtResolveCommand(a *cli.App) *cobra.Command {
	var o resolveOptions
	cmd := &cobra.Command{
		Use:   "resolve TX --commit|--rollback --reason TEXT",
		Short: "Record how a branch ended if its outcome cannot be proved",
		Long: `Record how a branch ended whose participant cannot be asked any more, or cannot prove the
outcome: --commit that it committed, --rollback that it rolled back. The coordinator
accepts the record, and does not ask the participant again. If the record differs from the
decision, the transaction has a heuristic outcome, until the damage is repaired and txmgr
indoubt forget is run.

The command ends nothing at the participant. Before it accepts the record, the
coordinator asks the participants: if one of them holds the branch prepared, or can prove
how it ended, the command is refused with exit code 6.

For a transaction that is not decided, --rollback decides to roll back, as an operator.
Only the votes of its branches can commit it. If one branch decides by its own end (its
vote is delegated), and the time is over, the record is how that branch ended: it becomes
the decision, and a heuristic outcome too, since it is not proved.

The operator is recorded as user@host, or as ` + cli.UserVariable + ` says; txmgr audit list
shows it.`,
		Example: `  txmgr indoubt resolve tx_01k9 --commit --reason "checked order 4711 in the database"
  txmgr indoubt resolve tx_01k9 --rollback --branch b2 --reason "restored from a backup" -y`,
		Args:              cli.ArgCount(1, 1, "TX"),
		ValidArgsFunction: completeInDoubt(a, false),
	}
	f := cmd.Flags()
	f.BoolVar(&o.commit, "commit", false, "the branch committed at the participant")
	f.BoolVar(&o.rollback, "rollback", false, "the branch rolled back at the participant")
	f.StringVar(&o.branch, "branch", "", "only this branch, as b1 or as the name of its participant (default: all branches in doubt)")
	f.StringVar(&o.reason, "reason", "", "how the outcome is known; required, recorded in the audit")
	_ = cmd.RegisterFlagCompletionFunc("branch", suggestBranches(a)) // the flag is there
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if o.commit == o.rollback {
			return output.Usage("--commit: the branch committed; --rollback: the branch rolled back", "want either --commit or --rollback")
		}
		id, info, err := resolveTarget(ctx, a, c, args[0], o.reason)
		if err != nil {
			return err
		}
		r := admin.Resolution{Commit: o.commit, Reason: o.reason, By: a.OperatorName()}
		if r.Branch, err = findBranch(info, o.branch); err != nil {
			return err
		}
		if err := a.Confirm(o.question(info)); err != nil {
			return err
		}
		fanoutCtx, cancel := a.WithTimeout(ctx)
		defer cancel()
		if _, err := c.Admin().Resolve(fanoutCtx, id, r); err != nil {
			return explainNext(id, err)
		}
		return printResolved(ctx, a, c, id, "RESOLVED")
	})
	return cmd
}

// resolveTarget finds the transaction that the operator resolves, and requires a reason.
func resolveTarget(ctx context.Context, a *cli.App, c *client.Client, arg, reason string) (txn.ID, txn.Info, error) {
	if strings.TrimSpace(reason) == "" {
		return txn.ID{}, txn.Info{}, output.Usage(`give --reason "..."; it is recorded in the audit`, "no reason given")
	}
	ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
	defer cancel()
	id, err := cli.ResolveID(ctx, c, arg)
	if err != nil {
		return id, txn.Info{}, err
	}
	info, err := c.Get(ctx, id)
	return id, info, err
}

// question describes what will be recorded.
func (o *resolveOptions) question(info txn.Info) string {
	word := "rolled back"
	if o.commit {
		word = "committed"
	}
	of := "the branches in doubt of"
	if o.branch != "" {
		of = o.branch + " of"
	}
	if branchDecides(info) {
		return fmt.Sprintf("Record, as the operator, that the branch which decides %s %s?", info.ID, word)
	}
	if !info.State.Decided() && o.rollback {
		return fmt.Sprintf("Roll back %s, which is not decided?", info.ID)
	}
	return fmt.Sprintf("Record, as the operator, that %s %s %s?", of, info.ID, word)
}

// branchDecides reports whether the end of a branch is the decision, and is being found out.
func branchDecides(info txn.Info) bool {
	decides := func(b txn.BranchInfo) bool {
		return b.Vote == txn.VoteDelegated || len(info.Branches) == 1 && b.Vote == txn.VoteEndedByApplication
	}
	return info.State == txn.Preparing && slices.ContainsFunc(info.Branches, decides)
}

// findBranch finds the branch that an argument names; zero for no argument.
func findBranch(info txn.Info, word string) (txn.BranchID, error) {
	if word == "" {
		return 0, nil
	}
	var names []string
	for _, b := range info.Branches {
		if word == b.Name || word == b.Participant {
			return txn.ParseBranchID(b.Name)
		}
		names = append(names, b.Name+" ("+b.Participant+")")
	}
	return 0, output.Usage("the branches are: "+output.OrDash(strings.Join(names, ", ")), "%s has no branch %q", info.ID, word)
}

// printResolved prints the state of a transaction after the operator's resolution.
func printResolved(ctx context.Context, a *cli.App, c *client.Client, id txn.ID, done string) error {
	ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
	defer cancel()
	info, err := c.Get(ctx, id)
	if errors.Is(err, txn.ErrNotFound) { // its retention time has expired
		info, err = txn.Info{ID: id}, nil
	}
	if err != nil {
		return err
	}
	t := output.Table{Columns: []output.Column{{Name: "TX"}, {Name: done}, {Name: "STATE", State: true}, {Name: "HEURISTIC"}, {Name: "BRANCHES"}}}
	state, heuristic := "forgotten", ""
	if info.State != 0 {
		state = info.State.String()
	}
	if info.Heuristic != 0 {
		heuristic = info.Heuristic.String()
	}
	t.Add(id.String(), "yes", state, heuristic, cell.Branches(info))
	return a.Print.Print(output.Document{Value: output.Normalize(info), IDs: []string{id.String()}, Tables: []output.Table{t}})
}

func suggestBranches(a *cli.App) cobra.CompletionFunc {
	return a.Complete(func(ctx context.Context, c *client.Client, args []string, _ string) (out []string) {
		if len(args) == 0 {
			return nil
		}
		id, err := cli.ResolveID(ctx, c, args[0])
		if err != nil {
			return nil
		}
		info, err := c.Get(ctx, id)
		if err != nil {
			return nil
		}
		for _, b := range info.Branches {
			out = append(out, cobra.CompletionWithDesc(b.Name, b.Participant+" "+b.State.String()))
		}
		return out
	})
}
