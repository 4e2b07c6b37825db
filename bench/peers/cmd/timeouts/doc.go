// Command timeouts measures the timeout structures beside what a Go program would use in their place, all in one run: runtime
// timers, container/heap and google/btree behind a mutex, the caches otter and theine with an expiry for each entry, and the
// wheel with a goroutine and channels that many libraries have. It prints medians, least and most, and whether the goals are
// met.
//
// The workloads and the way of measuring are those of txmgr bench timeouts, which measures the structures alone: package
// timeoutbench says what they are. Here every contender is safe for concurrent use where the table does not say otherwise;
// of the structures, those with "+mutex" behind their names are.
//
// Two experiments come with it. "sleepers" is that of the source of the heap: a thousand sleepers are put into a queue and
// all taken out again before any has slept its time, a thousand times; what the queue needs of each is part of a thread's
// descriptor, as there, or packed. "rotation" is how long a container with a million objects takes to fall off a hashbelt.
//
// Who cannot be told the time: entries of runtime timers and theine end within two seconds of the clock on the wall, and
// what is counted is the time of the whole process.
package main
