package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// settled ends a command that decided a transaction: it waits until nothing is
// left to be done, unless told not to, and prints where the transaction is.
func (a *app) settled(ctx context.Context, c *client.Client, id txn.ID, out txn.Outcome, began time.Time, noWait bool, patience time.Duration) error {
	if patience == 0 {
		patience = a.requestTimeout
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var info txn.Info
	var err error
	if noWait {
		info, err = c.Get(wait, id)
	} else {
		info, err = c.Wait(wait, id, txn.Finished)
	}
	switch {
	case errors.Is(err, txn.ErrWaitTimeout) || err != nil && wait.Err() != nil && ctx.Err() == nil:
		return a.undone(ctx, c, id, out.State, patience, err)
	case err != nil:
		// The decision is known, whatever became of the question.
		f := *output.Explain(err)
		f.State = fmt.Sprintf("%v: %s", out.State, output.Meaning(out.State, out.Hazard))
		return &f
	}
	if err := a.printSettled(info, time.Since(began)); err != nil {
		return err
	}
	return hazardous(info)
}

// undone is the failure of a wait for a transaction that is decided.
func (a *app) undone(ctx context.Context, c *client.Client, id txn.ID, decided txn.State, patience time.Duration, err error) error {
	f := a.overdue(ctx, c, id, patience, err)
	f.What = fmt.Sprintf("%s is decided, but not every participant has acknowledged within %v", id, patience)
	f.State = decided.String() + ": " + output.StateMeaning(decided)
	f.Next = "the coordinator goes on trying; txmgr wait " + id.String()
	return f
}

// hazardous turns a hazard into a failure, and a branch that was ended by hand: something
// ended otherwise than decided, or may be committed although the rest is rolled back, and
// a script must not take that for success.
func hazardous(info txn.Info) error {
	switch {
	case info.Hazard == 0 && info.EndedByHand() && !info.State.Commits():
		e := &txn.Error{Op: "end", ID: info.ID, State: info.State, Cause: info.Cause, Err: txn.ErrEndedByHand, Detail: info.Reason}
		return output.Explain(e)
	case info.Hazard == 0:
		return nil
	}
	return &output.Failure{
		Code: txn.CodeInDoubt, What: fmt.Sprintf("%s has a hazard: %s", info.ID, info.Hazard),
		Cause: "a branch ended, or may have ended, otherwise than decided: " + branchSummary(info),
		State: info.State.String() + ": " + output.Meaning(info.State, info.Hazard),
		Next:  "txmgr doubt explain " + info.ID.String(),
	}
}

func (a *app) printSettled(info txn.Info, took time.Duration) error {
	table := output.Table{Columns: []output.Column{{Name: "TX"}, {Name: "STATE", State: true}, {Name: "IN"}, {Name: "BRANCHES"}}}
	table.Add(info.ID.String(), marked(info.State, info.Hazard), output.Since(took), branchSummary(info))
	return a.print.Print(output.Document{Value: whole(info), IDs: []string{info.ID.String()}, Tables: []output.Table{table}})
}
