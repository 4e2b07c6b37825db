// Package recoverylog is what recovery reads of a node and writes through it: which transactions are
// pending and what their participants need, what their branches reported, and what the log
// remembers of a branch that a sweep has found.
//
// pending.go and lookup.go read; report.go writes.
package recoverylog
