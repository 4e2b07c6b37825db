package output

import "github.com/txmgr/txmgr/txn"

// CodeInterrupted is the code of a command that was stopped by a signal. It is not a code of the
// coordinator.
const CodeInterrupted txn.Code = "INTERRUPTED"

// Exit is one row of the table of exit codes.
type Exit struct {
	Status  int
	Code    txn.Code
	Meaning string
}

// ExitCodes is the contract with scripts. A code that is not listed exits as ERROR.
func ExitCodes() []Exit {
	return []Exit{
		{0, txn.CodeOK, "the requested state holds: committed, listed (also an empty list), healthy"},
		{1, txn.CodeError, "an unexpected error"},
		{2, txn.CodeUsage, "invalid flags, arguments or configuration; nothing was done"},
		{3, txn.CodeRolledBack, "a commit was requested, and nothing was applied"},
		{4, txn.CodeInDoubt, "the outcome is unknown to the caller, or a branch ended otherwise than decided"},
		{5, txn.CodeNotFound, "no such transaction or participant; it may have been forgotten"},
		{6, txn.CodeConflict, "the present state does not allow this; nothing was changed"},
		{7, txn.CodeTimedOut, "the wait timed out; the transaction continues"},
		{8, txn.CodeUnavailable, "no coordinator, no leader, or too much load; try again"},
		{9, txn.CodeDenied, "permission denied"},
		{10, txn.CodeUnhealthy, "doctor, a status, participant test or recover scan found a problem"},
		{130, CodeInterrupted, "stopped by a signal"},
	}
}

// ExitCode returns the exit code for a code.
func ExitCode(c txn.Code) int {
	for _, e := range ExitCodes() {
		if e.Code == c {
			return e.Status
		}
	}
	return 1
}
