// Package rig has what tests of real processes share: a [Process] that can be killed,
// halted and started again, a [EventLog] of what was done, bounded waiting, and the
// [HostStalls] of the machine itself, which no product is to blame for.
//
// # Invariants
//
//  1. Only processes that were started here are signalled, each by its own process
//     group. They end with this program, also when it is killed.
//  2. An end that nobody asked for is reported.
//
// # Concurrency and time
//
// Everything is safe for concurrent use; starting, killing and halting one process
// takes place one at a time. Waiting is bounded by the context and by [WaitTimeout].
package rig
