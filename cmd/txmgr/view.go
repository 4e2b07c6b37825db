package main

import (
	"slices"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

func normalizeAll(all []txn.Info) []txn.Info {
	out := make([]txn.Info, len(all))
	for i, t := range all {
		out[i] = output.Normalize(t)
	}
	return out
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
