// Command timeouts measures the timeout structures and what a Go program would use in their place,
// all in one run: runtime timers, container/heap and google/btree behind a mutex, the caches otter
// and theine with an expiry for each entry, and the wheel with a goroutine and channels that many
// libraries have. It prints medians, minimum and maximum, and whether the goals are met.
//
// The workloads and the method of measurement are those of txmgr bench timeouts, which measures the
// structures alone: see package timeoutbench. Every contender is safe for concurrent use unless the
// table says otherwise; of the structures, those with the suffix "+mutex" are.
//
// There are two more experiments. "sleepers" is that of the source of the heap: a thousand sleepers
// are put into a queue and all taken out again before any has slept its time, a thousand times;
// what the queue needs of each is part of a thread's descriptor, as in the source, or packed.
// "rotation" is the time that a hashbelt takes to drop a container with a million objects.
//
// Runtime timers and theine do not take the time from their caller: their entries end within two
// seconds of the wall clock, and the processor time of the whole process is counted.
package main
