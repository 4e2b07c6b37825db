package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Equal consecutive attempts are one line: only a change matters.
func TestAttemptsThatAreTheSameAreOneLine(t *testing.T) {
	at := func(second int, call, result string, failed bool) admin.CallAttempt {
		return admin.CallAttempt{At: time.Date(2026, 11, 21, 3, 0, second, 0, time.UTC), Took: txn.Duration(2 * time.Millisecond), Call: call, Result: result, Failed: failed}
	}
	got := attemptLines([]admin.CallAttempt{
		at(1, "prepare", "prepared", false),
		at(2, "commit", "connection refused", true), at(3, "commit", "connection refused", true), at(9, "commit", "connection refused", true),
		at(10, "commit", "too many connections", true), at(11, "commit", "committed", false),
	})
	want := []string{
		"03:00:01.000Z prepare, 2ms: prepared",
		"03:00:02.000Z commit, 3 times until 03:00:09.000Z, failed: connection refused",
		"03:00:10.000Z commit, 2ms, failed: too many connections",
		"03:00:11.000Z commit, 2ms: committed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if attemptLines(nil) != nil {
		t.Error("no attempts are no lines")
	}
}

func TestWhatAParticipantSaysNow(t *testing.T) {
	for want, q := range map[string]admin.BranchProbe{
		"the participant cannot be asked: connection refused": {Error: "connection refused", Detail: "not shown"},
		"it is prepared": {Prepared: true, Detail: "it is prepared"},
		"it is prepared: its connection 9 has gone":                  {Prepared: true, Detail: "it is prepared; its connection 9 has gone"},
		"it ended committed: its row is there":                       {Outcome: "committed", Detail: "its row is there"},
		"its end cannot be determined: it is not prepared":           {Outcome: "unknown", Detail: "it is not prepared"},
		"it has not ended: its session is open: process 7, user app": {Detail: "its session is open: process 7, user app"},
	} {
		if got := reportedState(txn.BranchInfo{State: txn.BranchPrepared}, q); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The end of a branch that ended as decided is not asked for.
func TestWhatIsLeftOfAFinishedBranch(t *testing.T) {
	q := admin.BranchProbe{Outcome: "unknown", Detail: "no session is on record"}
	if got := reportedState(txn.BranchInfo{State: txn.BranchCommitted}, q); got != "it is no longer prepared" {
		t.Errorf("%q", got)
	}
}

func TestWhoDidIt(t *testing.T) {
	a := &app{env: func(name string) string {
		if name == userVariable {
			return " alice@ops "
		}
		return ""
	}}
	if got := a.operatorName(); got != "alice@ops" {
		t.Errorf("%q", got)
	}
	a.env = func(string) string { return "" }
	if got := a.operatorName(); got == "" || got[0] == '@' {
		t.Errorf("nobody: %q", got)
	}
}
