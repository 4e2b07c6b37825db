package repair

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The classes of a scanned branch that needs no action.
const (
	classInProgress    = "leave"          // in progress, or waiting for its decision
	classForeign       = "foreign"        // of another cluster or application
	classOrphanedLocks = "orphaned-locks" // orphaned locks: no transaction of the server holds them
	classUnreachable   = "unreachable"    // of a participant: it could not be scanned
)

// RecoverCommand returns txmgr recover.
func RecoverCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Compare prepared branches at participants with the log",
		Long: `Compare prepared branches at participants with the log, and end those that need it; and
resume recovery in a cluster that was restored from a backup.`,
	}
	cli.GroupCommand(cmd)
	var apply bool
	scan := &cobra.Command{
		Use:   "scan [PARTICIPANT]",
		Short: "Scan participants for branches that need an action",
		Long: `List the prepared branches at the participants, and compare them with the log: the owner,
the age, the locks, and who waits for the locks. The coordinator does this itself at
intervals, as the sweep. Without --apply the command changes nothing.

  leave              no action: not decided yet, or being completed
  commit, rollback   needs this action; --apply carries it out
  foreign            not of this cluster: never touched
  orphaned-locks     locks without a holder: only a restart of that server helps
  unreachable        the participant could not be asked: it may hold more branches

The exit code is 10 if a branch of this cluster needs an action that was not carried out,
or if there may be one because a participant could not be asked. With --apply only
branches of this cluster are listed.`,
		Example:           "  txmgr recover scan\n  txmgr recover scan bank --apply",
		Args:              cli.ArgCount(0, 1, "at most PARTICIPANT"),
		ValidArgsFunction: a.CompleteParticipants(),
	}
	scan.Flags().BoolVar(&apply, "apply", false, "commit and roll back the branches that need it")
	scan.RunE = a.FanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		found, scanErr := c.Admin().Scan(ctx, name, apply)
		if scanErr != nil && len(found) == 0 {
			return scanErr
		}
		return errors.Join(printScan(a, found), scanErr, orphansFailure(found, apply))
	})
	cmd.AddCommand(scan, recoverResumeCommand(a))
	return cmd
}

func printScan(a *cli.App, found []admin.ScanResult) error {
	if found == nil {
		found = []admin.ScanResult{}
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
		{Name: "CLASS"},
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
		t.Add(f.Participant, tx, branch, state, cell.Age(f.Since), f.Owner, f.XID, lineCount(f.Locks), lineCount(f.Waiters), f.Class, done, f.Error)
		t.Under(labelled("locked: ", f.Locks)...)
		t.Under(labelled("waits:  ", f.Waiters)...)
		more = more || len(f.Locks)+len(f.Waiters) > 0
	}
	if more && a.Print.Format == output.TableFormat {
		a.Print.Note("-o wide shows the locks, and who waits for them")
	}
	return a.Print.Print(output.Document{Value: found, IDs: ids, Tables: []output.Table{t}})
}

// lineCount counts the lines of a participant's text; empty for none.
func lineCount(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return cell.Int(len(lines))
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
func needsAction(f admin.ScanResult) bool {
	switch f.Class {
	case classInProgress, classForeign, classUnreachable:
		return false
	}
	return !f.Done
}

func orphansFailure(found []admin.ScanResult, applied bool) error {
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
		what = append(what, output.Plural(left, "branch needs", "branches need")+" an action")
	}
	if unreachable > 0 {
		what = append(what, output.Plural(unreachable, "participant", "participants")+" could not be asked")
	}
	next := "txmgr recover scan --apply"
	switch {
	case left == 0:
		next = "txmgr doctor shows the problem; then scan again"
	case orphanedLocks == left:
		next = "restart that server: afterwards it lists the branches of its orphaned locks"
	case applied:
		next = "the coordinator retries; the errors are above"
	}
	return &output.Failure{Code: txn.CodeUnhealthy, What: strings.Join(what, ", and "), Hint: next}
}
