// Package ticks counts the invocations of the timeout thread: [Clock] on the monotonic clock,
// from where the log has left off, and [Scheduler], which is the timeout thread and asks for the
// log entry that expires the next deadline group. What turns a timeout into a tick is
// node/deadline.go, and whether a transaction has timed out is decided by txn/machine/expiry.go.
package ticks
