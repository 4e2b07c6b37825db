package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// The classes of a scanned branch that needs no action.
const (
	classInProgress    = "leave"   // in progress, or waiting for its decision
	classForeign       = "foreign" // of another cluster or application
	classOrphanedLocks = "ghost"   // orphaned locks: no transaction of the server holds them
	classUnreachable   = "unseen"  // of a participant: it could not be scanned
)

func recoverCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Compare what participants hold prepared with the log",
		Long: `Compare what participants hold prepared with what the coordinator knows, and repair
what was left behind; and let a cluster that was restored from a backup act again.`,
	}
	groupCommand(cmd)
	var apply bool
	scan := &cobra.Command{
		Use:   "scan [PARTICIPANT]",
		Short: "Look for branches that are left behind",
		Long: `Look at what participants hold prepared, and compare it with the log: whose it is,
since when, what it has locked, and who waits for that. The coordinator does this by
itself from time to time; here it can be seen. It changes nothing without --apply.

  leave              in good hands: not decided yet, or its end is under way
  commit, rollback   left behind; --apply carries it out
  foreign            not this cluster's: never touched
  ghost              locks that nobody holds: only a restart of that server helps
  unseen             that participant could not be asked: there may be more

The exit code is 10 when something of this cluster is left behind and not repaired,
or may be because a participant could not be asked.
With --apply only what is ours is looked at.`,
		Example:           "  txmgr recover scan\n  txmgr recover scan bank --apply",
		Args:              argCount(0, 1, "at most PARTICIPANT"),
		ValidArgsFunction: a.completeParticipants(),
	}
	scan.Flags().BoolVar(&apply, "apply", false, "commit and roll back what was left behind")
	scan.RunE = a.fanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		found, scanErr := c.Scan(ctx, name, apply)
		if scanErr != nil && len(found) == 0 {
			return scanErr
		}
		return errors.Join(a.printScan(found), scanErr, orphansFailure(found, apply))
	})
	cmd.AddCommand(scan, recoverResumeCommand(a))
	return cmd
}

func (a *app) printScan(found []txn.ScanResult) error {
	if found == nil {
		found = []txn.ScanResult{}
	}
	t := output.Table{Columns: []output.Column{
		{Name: "PARTICIPANT"},
		{Name: "TX"},
		{Name: "BRANCH"},
		{Name: "STATE", State: true},
		{Name: "PREPARED"},
		{Name: "OWNER", Wide: true},
		{Name: "XID", Wide: true},
		{Name: "LOCKS"},
		{Name: "WAITERS"},
		{Name: "VERDICT"},
		{Name: "DONE"},
		{Name: "ERROR"},
	}}
	var ids []string
	more := false
	for _, f := range found {
		if f.XID != "" {
			ids = append(ids, f.XID)
		}
		// A foreign branch has its XID in the column of the transaction.
		tx, branch, state := f.XID, "", ""
		if !f.ID.IsZero() {
			tx, branch, state = f.ID.String(), f.Branch.String(), "unknown"
		}
		if f.State != 0 {
			state = f.State.String()
		}
		done := ""
		if needsAction(f) {
			done = "no"
		} else if f.Done {
			done = "yes"
		}
		t.Add(f.Participant, tx, branch, state, formatAge(f.Since), f.Owner, f.XID, lineCount(f.Locks), lineCount(f.Waiters), f.Class, done, f.Error)
		t.Under(labelled("locked: ", f.Locks)...)
		t.Under(labelled("waits:  ", f.Waiters)...)
		more = more || len(f.Locks)+len(f.Waiters) > 0
	}
	if more && a.print.Format == output.TableFormat {
		a.print.Note("-o wide shows what is locked, and who waits for it")
	}
	return a.print.Print(output.Document{Value: found, IDs: ids, Tables: []output.Table{t}})
}

// lineCount counts the lines of a participant's text; empty for none.
func lineCount(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return formatInt(len(lines))
}

func labelled(label string, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = label + line
	}
	return out
}

// needsAction reports whether a branch needs an action that was not taken. Foreign branches are
// never repaired here.
func needsAction(f txn.ScanResult) bool {
	switch f.Class {
	case classInProgress, classForeign, classUnreachable:
		return false
	}
	return !f.Done
}

func orphansFailure(found []txn.ScanResult, applied bool) error {
	left, orphanedLocks, unreachable := 0, 0, 0
	for _, f := range found {
		switch {
		case f.Class == classUnreachable:
			unreachable++
		case f.Error != "" || needsAction(f):
			left++
		}
		if f.Class == classOrphanedLocks {
			orphanedLocks++
		}
	}
	if left+unreachable == 0 {
		return nil
	}
	var what []string
	if left > 0 {
		what = append(what, output.Plural(left, "branch is", "branches are")+" left behind")
	}
	if unreachable > 0 {
		what = append(what, output.Plural(unreachable, "participant", "participants")+" could not be asked")
	}
	next := "txmgr recover scan --apply"
	switch {
	case left == 0:
		next = "txmgr doctor says what is wrong there; then scan again"
	case orphanedLocks == left:
		next = "restart that server: its locks are held by nobody, and it lists them again then"
	case applied:
		next = "the coordinator tries again by itself; look at the errors above"
	}
	return &output.Failure{Code: txn.CodeUnhealthy, What: strings.Join(what, ", and "), Next: next}
}
