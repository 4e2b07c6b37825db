// Package timeoutadapters has the timeout structures side by side, as [timeout.Structure] of numbers: for the conformance suite,
// which compares them with each other, and for benchmarks, which run the same work on all of them. The purgatory, which has a
// clock and requests instead of entries, joins them in a test.
//
// survival.Table is one by itself. The others hold values of their user's choice, and here a number; each adapter is what a
// user of that structure would write.
package timeoutadapters
