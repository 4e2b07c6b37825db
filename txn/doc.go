// Package txn says what a global transaction is, for everyone: its identity,
// its states, its outcome, the branches it is made of, the errors that can come
// back, and the [Manager] through which an application drives it.
//
// A global transaction spans several participants. It is decided exactly once,
// by one entry of a replicated log, and every branch is then driven to that
// decision. The package holds vocabulary, and with [Tx] the application's part of the
// protocol: it decides nothing and does no I/O of its own. The decisions are made
// in txn/machine.
//
// # States
//
//	active -> preparing -> committing -> committed
//	   \          \
//	    +----------+--> rolling back -> rolled back
//
// A hazard is not a state: it is a mark on a transaction of which a branch
// ended, or may have ended, otherwise than decided.
//
// # Concurrency
//
// All types here are values, except [Tx], which says so itself.
package txn
