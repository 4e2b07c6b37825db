// Package queue holds what waits for recovery in memory: a million pending transactions and
// their branches wait in a [FIFO], and those that are left to their clients in [Grace].
//
// Both cost what an element takes, copy nothing while they grow, and give memory back as they
// drain. They have no lock: the owner's guards them.
package queue
