// Package history keeps what was tried for the branches of transactions: [Attempts] at one
// branch, and an [Archive] of those at the branches that are finished.
//
// Both have a limit, however much fails at once: invariant 3 of package recovery has the numbers.
// There is no clock and no lock; the owner has both.
package history
