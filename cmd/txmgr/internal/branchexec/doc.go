// Package branchexec is the application's side of registered participants, for
// programs that get their statements as text: it finds out how to reach a
// participant from its registration, and runs statements there within a global
// transaction.
//
// Settings that name a variable or a file are looked up here, on the machine and
// in the environment of whoever runs the statements, as each server does for
// itself.
//
// # Concurrency
//
// A [Executor] may be used by several transactions at once; the statements of one
// transaction run one after the other.
//
// # What it does not do
//
// It decides nothing: package txn prepares and commits what is run here.
package branchexec
