// Package timeoutadapters adapts the timeout structures to [timeout.Structure] of numbers: for the
// conformance suite, which compares them with each other, and for benchmarks, which run the same
// work on all of them. The purgatory, which has a clock and requests instead of entries, joins them
// in a test.
//
// survival.Table implements the interface itself. The others hold values of their user's choice,
// here a number; each adapter is what a user of that structure would write.
package timeoutadapters
