package transaction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// InspectCommand returns txmgr inspect.
func InspectCommand(a *cli.App) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "inspect TX",
		Short: "Show one transaction in detail",
		Long: `Show one transaction in detail: its state, its place in the survival index, its
branches, and why a branch is not finished.

With --watch it is shown again at every change of its state, until it is finished.`,
		Example: `  txmgr inspect tx_01k9
  txmgr inspect tx_01k9 -o json
  txmgr inspect tx_01k9 --watch`,
		Args:              cli.ArgCount(1, 1, "TX"),
		ValidArgsFunction: a.CompleteTX(false),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again at every change of its state, until it is finished")
	once := a.ReadCmd(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		id, err := cli.ResolveID(ctx, c, args[0])
		if err != nil {
			return err
		}
		info, err := c.Get(ctx, id)
		if err != nil {
			return err
		}
		return printInfo(a, info)
	})
	again := a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		callCtx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		id, err := cli.ResolveID(callCtx, c, args[0])
		if err != nil {
			return err
		}
		return follow(ctx, a, c, id)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if watch {
			return again(cmd, args)
		}
		return once(cmd, args)
	}
	return cmd
}

// follow shows a transaction until it is finished. It waits for the decision and then for the
// completion, so that it misses neither change.
func follow(ctx context.Context, a *cli.App, c *client.Client, id txn.ID) error {
	info, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
	for shown := 0; ; shown++ {
		if shown > 0 && !a.Print.Format.Structured() {
			a.Print.Note("")
		}
		if a.Print.Format == output.JSONFormat {
			a.Print.Format = output.JSONLFormat // one line for each change
		}
		if err := printInfo(a, info); err != nil || info.State.Finished() {
			return err
		}
		goal := txn.UntilDecided
		if info.State.Decided() {
			goal = txn.UntilFinished
		}
		if info, err = c.Wait(ctx, id, goal); err != nil {
			return err
		}
	}
}

func printInfo(a *cli.App, info txn.Info) error {
	t := output.Table{Columns: []output.Column{{Name: "FIELD"}, {Name: "VALUE", State: true}}}
	t.Add("id", info.ID.String())
	add := func(name, value string) {
		if value != "" {
			t.Add(name, value)
		}
	}
	add("name", info.Name)
	t.Add("state", info.State.String())
	add("meaning", output.InfoMeaning(info))
	if info.Cause != 0 {
		t.Add("cause", info.Cause.String())
	}
	add("reason", info.Reason)
	if !info.Session.IsZero() {
		t.Add("session", info.Session.String())
	}
	if info.Heuristic != 0 {
		t.Add("heuristic", info.Heuristic.String())
	}
	add("labels", cell.Labels(info.Labels))
	t.Add("began", fmt.Sprintf("%s (%s ago)", info.Began.Format(time.RFC3339), output.Since(time.Since(info.Began))))
	t.Add("timeout", info.Timeout.String())
	if !info.Decided.IsZero() {
		t.Add("decided", fmt.Sprintf("%s (%s), at tick %d, by entry %d of the log", info.Decided.UTC().Format(time.RFC3339), cell.Age(info.Decided), info.DecidedTick, info.DecidedIndex))
	}
	if !info.State.Decided() {
		t.Add("expires in", cell.Duration(info.ExpiresIn))
		t.Add("remaining invocations", cell.Int(info.RemainingInvocations))
	}
	t.Add("survival index", cell.Int(info.SurvivalIndex))
	t.Add("expiry tick", cell.Int(info.ExpiryTick))
	tables := []output.Table{t}
	if len(info.Branches) > 0 {
		tables = append(tables, branchTable(info))
	}
	if info.Heuristic != 0 || info.EndedByApplication() {
		a.Print.Note("txmgr indoubt explain %s shows the possible actions", info.ID)
	}
	return a.Print.Print(output.Document{Value: output.Normalize(info), IDs: []string{info.ID.String()}, Tables: tables})
}

// branchTable lists the branches of one transaction. It has two more columns only if a branch has a
// heuristic outcome.
func branchTable(t txn.Info) output.Table {
	heuristics := slices.ContainsFunc(t.Branches, func(b txn.BranchInfo) bool { return b.Heuristic != 0 || b.Detail != "" })
	table := output.Table{Columns: []output.Column{
		{Name: "BRANCH"},
		{Name: "PARTICIPANT"},
		{Name: "KIND"},
		{Name: "VOTE"},
		{Name: "STATE", State: true},
	}}
	if heuristics {
		table.Columns = append(table.Columns, output.Column{Name: "HEURISTIC"})
	}
	table.Columns = append(table.Columns, output.Column{Name: "ATTEMPTS"}, output.Column{Name: "NEXT TRY"}, output.Column{Name: "XID", Wide: true}, output.Column{Name: "LAST ERROR"})
	if heuristics {
		table.Columns = append(table.Columns, output.Column{Name: "DETAIL"})
	}
	for _, b := range t.Branches {
		attempts, heuristic := "", ""
		if b.Attempts > 0 {
			attempts = cell.Int(b.Attempts)
		}
		if b.Heuristic != 0 {
			heuristic = b.Heuristic.String()
		}
		row := []string{b.Name, b.Participant, b.Kind, b.Vote.String(), b.State.String()}
		if heuristics {
			row = append(row, heuristic)
		}
		row = append(row, attempts, cell.Duration(b.NextTry), b.XID, b.LastError)
		table.Add(append(row, b.Detail)...)
	}
	return table
}
