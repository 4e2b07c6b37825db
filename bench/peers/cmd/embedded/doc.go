// Command embedded measures the coordinator as a Go library: throughput and flushes of an empty one, and what a million
// open transactions of two branches change about it: throughput, memory, garbage collection, snapshots, restart, idling,
// and a group of deadlines that end at once.
//
// Two nodes, each in a process of its own, take turns: one is empty, the other holds the open transactions. Ratios compare
// figures of the same round.
//
// It needs Linux.
package main
