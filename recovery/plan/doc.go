// Package plan says what the log has about unfinished transactions, and computes what has to be
// done about them: [Plan] for pending work, [OrphanAction] for a branch that a scan found.
//
// The package is pure: no clock, no randomness, no input or output.
package plan
