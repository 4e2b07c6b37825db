// Package branchexec runs statements that are given as text at registered participants, within a
// global transaction. Call [Open] with the registration of a participant:
//
//	e, err := branchexec.Open(ctx, p, os.Getenv)
//	r, err := e.Run(ctx, tx, "UPDATE account SET balance = balance - 10")
//
// Settings that name a variable or a file are resolved here, on the machine and in the environment
// of the process that runs the statements, as each server does for itself.
//
// # Concurrency
//
// An [Executor] may be used by several transactions at once; the statements of one transaction run
// one after the other.
//
// # What it does not do
//
// It decides nothing: package txn prepares and commits the branches.
package branchexec
