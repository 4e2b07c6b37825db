package transaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

const (
	goalCommitted  = "committed"
	goalRolledBack = "rolled-back"
	goalFinished   = "finished"
)

// WaitCommand returns txmgr wait.
func WaitCommand(a *cli.App) *cobra.Command {
	var goal string
	var timeout time.Duration
	goals := []string{goalCommitted, goalRolledBack, goalFinished}
	cmd := &cobra.Command{
		Use:   "wait TX",
		Short: "Wait until a transaction is finished",
		Long: `Wait until a transaction is finished, and for the outcome that --for names.

Waiting for committed ends at once, with exit code 3, when the transaction is decided to
roll back; waiting for rolled-back, with exit code 6, when it is decided to commit. If
the wait times out, the exit code is 7.`,
		Example: `  txmgr wait tx_01k9
  txmgr wait tx_01k9 --for committed --wait-timeout 5s`,
		Args:              cli.ArgCount(1, 1, "TX"),
		ValidArgsFunction: a.CompleteTX(false),
	}
	f := cmd.Flags()
	f.StringVar(&goal, "for", goalFinished, "outcome to wait for: committed, rolled-back or finished")
	f.DurationVar(&timeout, "wait-timeout", time.Minute, "time to wait")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(goals, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		switch goal {
		case goalCommitted, goalRolledBack, goalFinished:
		default:
			return output.Usage(output.DidYouMean(goal, goals, "--for "), "--for %q: want committed, rolled-back or finished", goal)
		}
		if timeout <= 0 {
			return output.Usage("give a positive duration", "--wait-timeout is %v", timeout)
		}
		began := time.Now()
		id, err := existingID(ctx, a, c, args[0])
		if err != nil {
			return err
		}
		callCtx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		info, err := waitUntil(callCtx, c, id, goal)
		if errors.Is(err, txn.ErrWaitTimeout) || err != nil && callCtx.Err() != nil && ctx.Err() == nil {
			return timeoutFailure(ctx, a, c, id, timeout, err)
		}
		if err != nil {
			return err
		}
		if err := printOutcome(a, info, time.Since(began)); err != nil {
			return err
		}
		return heuristicFailure(info)
	})
	return cmd
}

// existingID finds an existing transaction. --request-timeout bounds this look-up, and only this one:
// a wrong address fails soon, and a short wait is not taken for an unreachable coordinator; the wait
// itself tolerates one for longer.
func existingID(ctx context.Context, a *cli.App, c *client.Client, arg string) (txn.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
	defer cancel()
	id, err := cli.ResolveID(ctx, c, arg)
	if err == nil {
		_, err = c.Get(ctx, id)
	}
	return id, err
}

// waitUntil waits for the decision first, so that a wait for the opposite outcome fails at once.
func waitUntil(ctx context.Context, c *client.Client, id txn.ID, goal string) (txn.Info, error) {
	info, err := c.Wait(ctx, id, txn.UntilDecided)
	if err != nil {
		return info, err
	}
	switch {
	case goal == goalCommitted && !info.State.Commits():
		e := info.RolledBack("wait")
		e.Detail = info.Reason
		return info, e
	case goal == goalRolledBack && info.State.Commits():
		return info, &txn.Error{Op: "wait", ID: id, State: info.State, Err: txn.ErrConflict, Detail: "it is decided to commit"}
	}
	return c.Wait(ctx, id, txn.UntilFinished)
}

// timeoutFailure is the failure of a wait that timed out. It reads the transaction once more for
// the reason.
func timeoutFailure(ctx context.Context, a *cli.App, c *client.Client, id txn.ID, timeout time.Duration, err error) *output.Failure {
	ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
	defer cancel()
	f := &output.Failure{
		Code: txn.CodeTimedOut, What: fmt.Sprintf("%s is not finished after %v", id, timeout),
		Hint: "the transaction continues; txmgr inspect " + id.String(), Err: err,
	}
	if info, err := c.Get(ctx, id); err == nil {
		f.Cause = waitReason(info)
		f.State = info.State.String() + ": " + output.InfoMeaning(info)
	}
	return f
}
