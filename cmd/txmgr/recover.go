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

const verdictLeave = "leave"

func recoverCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Compare what participants hold prepared with the log",
		Long: `Compare what participants hold prepared with what the coordinator knows, and repair
what was left behind.`,
	}
	parent(cmd)
	var apply bool
	scan := &cobra.Command{
		Use:   "scan [PARTICIPANT]",
		Short: "Look for branches that are left behind",
		Long: `Look at what participants hold prepared under names of this cluster, and compare it
with the log. The coordinator does this by itself from time to time; here it can be
seen. Nothing that carries another name is ever looked at or touched.

The exit code is 10 when something is left behind and not repaired: --apply repairs
what can be repaired.`,
		Example:           "  txmgr recover scan\n  txmgr recover scan bank --apply",
		Args:              takes(0, 1, "at most PARTICIPANT"),
		ValidArgsFunction: a.completeParticipants(),
	}
	scan.Flags().BoolVar(&apply, "apply", false, "carry the verdicts out")
	scan.RunE = a.brief(func(ctx context.Context, c *client.Client, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		found, scanErr := c.Scan(ctx, name, apply)
		if scanErr != nil && len(found) == 0 {
			return scanErr
		}
		return errors.Join(a.printFindings(found), scanErr, leftBehind(found, apply))
	})
	cmd.AddCommand(scan)
	return cmd
}

func (a *app) printFindings(found []txn.Finding) error {
	if found == nil {
		found = []txn.Finding{}
	}
	t := output.Table{Columns: []output.Column{
		{Name: "PARTICIPANT"},
		{Name: "TX"},
		{Name: "BRANCH"},
		{Name: "STATE", State: true},
		{Name: "PREPARED"},
		{Name: "OWNER", Wide: true},
		{Name: "XID", Wide: true},
		{Name: "VERDICT"},
		{Name: "DONE"},
		{Name: "ERROR"},
	}}
	var ids []string
	for _, f := range found {
		ids = append(ids, f.XID)
		state, since, done := "unknown", "", "no"
		if f.State != 0 {
			state = f.State.String()
		}
		if !f.Since.IsZero() {
			since = output.Since(time.Since(f.Since)) + " ago"
		}
		switch {
		case f.Verdict == verdictLeave:
			done = ""
		case f.Done:
			done = "yes"
		}
		t.Add(f.Participant, f.ID.String(), f.Branch.String(), state, since, f.Owner, f.XID, f.Verdict, done, f.Error)
	}
	return a.print.Print(output.Document{Value: found, IDs: ids, Tables: []output.Table{t}})
}

func leftBehind(found []txn.Finding, applied bool) error {
	left := 0
	for _, f := range found {
		if f.Error != "" || f.Verdict != verdictLeave && !f.Done {
			left++
		}
	}
	if left == 0 {
		return nil
	}
	next := "txmgr recover scan --apply"
	if applied {
		next = "the coordinator tries again by itself; look at the errors above"
	}
	return &output.Failure{Code: txn.CodeUnhealthy, What: output.Plural(left, "branch is", "branches are") + " left behind", Next: next}
}
