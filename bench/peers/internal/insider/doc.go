// Package insider measures the coordinator from within: three processes, each with one node of a cluster in it, take orders
// on their standard input and answer on their standard output. The load is made in the process of the node that leads, so
// that nothing but the log, the state machine and the traffic between the nodes is measured.
//
// A program that uses it calls [Work] when it was started with the arguments that [Start] gives.
package insider
