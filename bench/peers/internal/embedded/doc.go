// Package embedded measures the coordinator from within: three processes, each with one node of a
// cluster, read requests from their standard input and write responses to their standard output.
// The load is generated in the process of the leader, so that only the log, the state machine and
// the traffic between the nodes are measured.
//
// A program that uses it calls [Start], and [Work] when it was started with the arguments that
// Start adds.
package embedded
