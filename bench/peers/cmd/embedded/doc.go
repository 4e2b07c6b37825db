// Command embedded measures the coordinator as a Go library: throughput and flushes of an empty
// one, and the effect of a million open transactions of two branches on throughput, memory, garbage
// collection, snapshots, restart, idling, and a group of deadlines that end at once.
//
// Two nodes, each in a process of its own, take turns: one is empty, the other holds the open transactions. Ratios compare
// figures of the same round.
//
// It needs Linux.
package main
