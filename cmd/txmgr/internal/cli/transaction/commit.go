package transaction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

type commitOptions struct {
	votes   []string
	noWait  bool
	timeout time.Duration
}

// CommitCommand returns txmgr commit.
func CommitCommand(a *cli.App) *cobra.Command {
	var o commitOptions
	cmd := &cobra.Command{
		Use:   "commit TX",
		Short: "Commit a transaction whose branches are prepared",
		Long: `Commit a transaction. Every branch that the application prepared itself needs its vote:
prepared, read-only, no, or ended-by-application if statements of the application have
ended the branch. The votes no and ended-by-application roll the transaction back.

The command waits until every participant has committed. With --no-wait it returns when
the decision is durable; the decision is final from then on. If the wait times out, the
exit code is 7, and the transaction is still decided.`,
		Example: `  txmgr commit tx_01k9 --vote b1=prepared --vote b2=prepared
  txmgr commit tx_01k9 --vote bank=prepared --vote stock=read-only
  txmgr commit tx_01k9 --vote all=prepared --no-wait`,
		Args:              cli.ArgCount(1, 1, "TX"),
		ValidArgsFunction: a.CompleteTX(false),
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.votes, "vote", nil, "vote of a branch, as BRANCH=VOTE, PARTICIPANT=VOTE or all=VOTE; may be repeated")
	f.BoolVar(&o.noWait, "no-wait", false, "return when the decision is durable")
	f.DurationVar(&o.timeout, "wait-timeout", 0, "time to wait for the participants (default: --request-timeout)")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		began := time.Now()
		callCtx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		id, err := cli.ResolveID(callCtx, c, args[0])
		if err != nil {
			return err
		}
		votes, err := o.parse(callCtx, c, id)
		if err != nil {
			return err
		}
		out, err := c.Commit(callCtx, id, txn.CommitRequest{Votes: votes})
		if err != nil {
			return missingVotes(callCtx, c, id, err)
		}
		return waitForOutcome(ctx, a, c, id, out, began, o.noWait, o.timeout)
	})
	return cmd
}

// parse parses the votes; a branch may be named by its participant.
func (o *commitOptions) parse(ctx context.Context, c *client.Client, id txn.ID) ([]txn.BranchVote, error) {
	if len(o.votes) == 0 {
		return nil, nil
	}
	info, err := c.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	var votes []txn.BranchVote
	for _, word := range o.votes {
		who, what, ok := strings.Cut(word, "=")
		if !ok {
			return nil, output.Usage("write it as --vote b1=prepared", "--vote %q contains no vote", word)
		}
		vote, err := txn.ParseVote(what)
		if err != nil || vote == 0 {
			kinds := []string{txn.VotePrepared.String(), txn.VoteReadOnly.String(), txn.VoteNo.String(), txn.VoteEndedByApplication.String()}
			return nil, output.Usage(output.DidYouMean(what, kinds, "--vote "+who+"="), "--vote %q: a vote is %s", word, strings.Join(kinds, ", "))
		}
		for _, b := range info.Branches {
			if who == "all" || who == b.Name || who == b.Participant {
				n, err := txn.ParseBranchID(b.Name)
				if err != nil {
					return nil, err
				}
				votes = append(votes, txn.BranchVote{Branch: n, Vote: vote})
				ok = false
			}
		}
		if ok {
			return nil, output.Usage("txmgr inspect "+id.String()+" shows the branches", "--vote %q: the transaction has no branch %q", word, who)
		}
	}
	return votes, nil
}

// missingVotes adds to an error how to give the votes that were missing.
func missingVotes(ctx context.Context, c *client.Client, id txn.ID, err error) error {
	if !errors.Is(err, txn.ErrConflict) || errors.Is(err, txn.ErrNotActive) {
		return err
	}
	info, getErr := c.Get(ctx, id)
	if getErr != nil {
		return err
	}
	var flags []string
	for _, b := range info.Branches {
		if b.Vote == 0 {
			flags = append(flags, "--vote "+b.Name+"="+txn.VotePrepared.String())
		}
	}
	f := output.Explain(err)
	if len(flags) > 0 {
		f.Hint = fmt.Sprintf("if the branches are prepared: txmgr commit %s %s", id, strings.Join(flags, " "))
	}
	return f
}
