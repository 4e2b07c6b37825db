package timeout

// Tick is an absolute number of steps of the structure's driver, since the beginning: for the
// survival index the invocations of the timeout thread since the bootstrap of the cluster, for
// a wheel the units of its clock, for a hashbelt its rotations.
type Tick uint64

// Structure is the contract, over entries that are numbers. H is the handle that Add returns
// and Cancel takes: an entry's place, so that a cancel need not search for it.
//
// Package survival implements it directly. The others hold values of their user's choice, and
// implement it by an adapter of a few lines in the conformance suite, timeout/timeouttest.
//
// No structure has a lock unless its package says so, and its results depend on the calls alone.
type Structure[H any] interface {
	// Add adds the entry id, which is not zero and not pending, and is due when Now reaches end. An end that has passed
	// is due at once.
	Add(id uint64, end Tick) H

	// Cancel removes the entry id, for which Add returned h. It reports false, and changes nothing,
	// if the entry was taken or cancelled, or if h was never that of id. An entry that is due and
	// not yet taken can still be cancelled.
	Cancel(id uint64, h H) bool

	// Advance moves Now forward to the tick to; it does nothing if to has passed. Its cost does not
	// depend on how many ticks lie between.
	Advance(to Tick)

	// Expire takes up to len(buf) entries that are due, in the order of their ends, and returns how many.
	Expire(buf []uint64) int

	// Next returns a tick before which nothing becomes due, and false if nothing is pending.
	// Repeatedly advancing to it arrives at the first end.
	Next() (Tick, bool)

	// Len returns how many entries are pending, including those that are due and not yet taken.
	Len() int

	// Now returns the tick that the structure has reached.
	Now() Tick
}
