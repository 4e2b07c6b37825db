// Package ticks counts the invocations of the timeout thread: [Clock] on the monotonic clock,
// from where the log has left off, and [Scheduler], which is the timeout thread and asks for the
// log entry that expires the next deadline group.
package ticks
