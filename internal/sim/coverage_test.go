package sim

import (
	"slices"
	"testing"
)

// checkCoverage fails when a batch of runs has not tested what it claims to test.
func checkCoverage(t *testing.T, runs int, total Outcome) {
	t.Helper()
	for _, least := range []struct {
		what string
		got  int
		per  int // run
	}{
		{"transactions", total.Transactions, 60},
		{"commits", total.Committed, 15},
		{"rollbacks", total.RolledBack, 8},
		{"timeouts", total.TimedOut, 2},
		{"log entries", total.Entries, 250},
		{"snapshots", total.Snapshots, 3},
		{"messages", total.Messages, 2000},
		{"calls checked", total.Operations, 200},
	} {
		if least.got < least.per*runs {
			t.Errorf("%d %s in %d runs: too few to have tried anything; want %d a run", least.got, least.what, runs, least.per)
		}
	}
	if runs < enoughRuns {
		return
	}
	var names []string
	for _, f := range faults() {
		names = append(names, f.name)
	}
	names = append(names,
		"message cut off", "message lost", "message twice", "answer lost", "client: answer lost",
		"crash", "node stops: its disk failed", "snapshot cannot be written", "leader changed", "snapshot taken", "snapshot sent", "snapshot torn", "snapshot twice", "unacknowledged write kept",
		"application dies", "application dawdles", "session fenced", "call forwarded", "timeout",
		"session opened", "session closed", "session expired", "session kept alive through a leader change", "transaction ended by its session",
		"bank hangs", "stock hangs", "post hangs", "bank answer lost", "stock answer lost", "post answer lost",
		"bank out of reach", "stock out of reach", "post out of reach",
		"bank: not there at commit", "stock: kept from beginning", "stock: listed again",
		"post: commit repeated", "post: prepare after its rollback", "post: ended by hand", "bank: no proof of an end",
		"last branch decides", "last branch decides: committed", "last branch decides: revoked", "last branch decides: a no", "last branch decides: enlistment again",
		"client: begin repeated", "client: begin repeated late", "begin refused behind the horizon", "outcome forgotten",
		"client: commit out of turn", "client: rollback out of turn", "client: done out of turn",
	)
	slices.Sort(names)
	for _, name := range names {
		if total.Fired[name] == 0 {
			t.Errorf("%q has not happened in %d runs", name, runs)
		}
	}
}

// enoughRuns is the number of runs from which on every fault has to have occurred.
const enoughRuns = 200
