package transaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// waitForOutcome ends a command that decided a transaction: it waits until the transaction is
// complete, unless told not to, and prints its state.
func waitForOutcome(ctx context.Context, a *cli.App, c *client.Client, id txn.ID, out txn.Outcome, began time.Time, noWait bool, timeout time.Duration) error {
	if timeout == 0 {
		timeout = a.RequestTimeout
	}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var info txn.Info
	var err error
	if noWait {
		info, err = c.Get(wait, id)
	} else {
		info, err = c.Wait(wait, id, txn.UntilFinished)
	}
	switch {
	case errors.Is(err, txn.ErrWaitTimeout) || err != nil && wait.Err() != nil && ctx.Err() == nil:
		return completingFailure(ctx, a, c, id, out.State, timeout, err)
	case err != nil:
		// The decision is known, although the call that read the outcome failed.
		f := *output.Explain(err)
		f.State = fmt.Sprintf("%v: %s", out.State, output.Meaning(out.State, out.Heuristic))
		return &f
	}
	if err := printOutcome(a, info, time.Since(began)); err != nil {
		return err
	}
	return heuristicFailure(info)
}

// completingFailure is the failure of a wait for a transaction that is decided.
func completingFailure(ctx context.Context, a *cli.App, c *client.Client, id txn.ID, decided txn.State, timeout time.Duration, err error) error {
	f := timeoutFailure(ctx, a, c, id, timeout, err)
	f.What = fmt.Sprintf("%s is decided, but not every participant has acknowledged within %v", id, timeout)
	f.State = decided.String() + ": " + output.StateMeaning(decided)
	f.Hint = "the coordinator retries; txmgr wait " + id.String()
	return f
}

// heuristicFailure turns a heuristic outcome, and a branch that the application ended, into a failure:
// a branch ended otherwise than decided, or may be committed although the rest is rolled back. A
// script must not take that for success.
func heuristicFailure(info txn.Info) error {
	switch {
	case info.Heuristic == 0 && info.EndedByApplication() && !info.State.Commits():
		e := &txn.Error{Op: "end", ID: info.ID, State: info.State, Cause: info.Cause, Err: txn.ErrEndedByApplication, Detail: info.Reason}
		return output.Explain(e)
	case info.Heuristic == 0:
		return nil
	}
	return &output.Failure{
		Code: txn.CodeInDoubt, What: fmt.Sprintf("%s has a heuristic outcome: %s", info.ID, info.Heuristic),
		Cause: "a branch ended, or may have ended, otherwise than decided: " + cell.Branches(info),
		State: info.State.String() + ": " + output.Meaning(info.State, info.Heuristic),
		Hint:  "txmgr indoubt explain " + info.ID.String(),
	}
}

func printOutcome(a *cli.App, info txn.Info, took time.Duration) error {
	table := output.Table{Columns: []output.Column{{Name: "TX"}, {Name: "STATE", State: true}, {Name: "IN"}, {Name: "BRANCHES"}}}
	table.Add(info.ID.String(), cell.State(info.State, info.Heuristic), output.Since(took), cell.Branches(info))
	return a.Print.Print(output.Document{Value: output.Normalize(info), IDs: []string{info.ID.String()}, Tables: []output.Table{table}})
}

// waitReason describes what a decided transaction waits for.
func waitReason(t txn.Info) string {
	for _, b := range t.Branches {
		if b.LastError != "" && !b.State.Finished() {
			next := ""
			if b.NextTry > 0 {
				next = ", next in " + cell.Duration(b.NextTry)
			}
			return b.Participant + ": " + b.LastError + " (" + output.Plural(b.Attempts, "attempt", "attempts") + next + ")"
		}
	}
	return ""
}
