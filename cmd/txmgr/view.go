package main

import (
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// normalize gives a transaction the form on which programs rely: lists and maps are never null.
func normalize(t txn.Info) txn.Info {
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	if t.Branches == nil {
		t.Branches = []txn.BranchInfo{}
	}
	return t
}

func normalizeAll(all []txn.Info) []txn.Info {
	out := make([]txn.Info, len(all))
	for i, t := range all {
		out[i] = normalize(t)
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
			attempts = formatInt(b.Attempts)
		}
		if b.Heuristic != 0 {
			heuristic = b.Heuristic.String()
		}
		row := []string{b.Name, b.Participant, b.Kind, b.Vote.String(), b.State.String()}
		if heuristics {
			row = append(row, heuristic)
		}
		row = append(row, attempts, formatDuration(b.NextTry), b.XID, b.LastError)
		table.Add(append(row, b.Detail)...)
	}
	return table
}

// branchSummary is all branches in one cell: "bank prepared, stock enlisted".
func branchSummary(t txn.Info) string {
	var parts []string
	for _, b := range t.Branches {
		parts = append(parts, b.Participant+" "+b.State.String())
	}
	return strings.Join(parts, ", ")
}

// waitReason describes what a decided transaction waits for.
func waitReason(t txn.Info) string {
	for _, b := range t.Branches {
		if b.LastError != "" && !b.State.Finished() {
			next := ""
			if b.NextTry > 0 {
				next = ", next in " + formatDuration(b.NextTry)
			}
			return b.Participant + ": " + b.LastError + " (" + output.Plural(b.Attempts, "attempt", "attempts") + next + ")"
		}
	}
	return ""
}

// stateWithHeuristic is the state with the heuristic outcome, if there is one.
func stateWithHeuristic(s txn.State, h txn.Heuristic) string {
	if h == 0 {
		return s.String()
	}
	return s.String() + " (heuristic: " + h.String() + ")"
}

// formatDuration writes a duration for people; empty for zero.
func formatDuration(d txn.Duration) string {
	if d == 0 {
		return ""
	}
	return output.Since(time.Duration(d))
}
