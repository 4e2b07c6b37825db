// Package testdb runs private database servers: for tests, for the demo's
// scratch databases and for benchmarks.
//
// A server is a real one, from the operating system's packages, with its data in
// a directory of its own. It listens on 127.0.0.1 alone, on a port below the
// ephemeral range, so that it finds the same port free again after a crash. What
// is missing on the machine is an error that says what to install; nothing is
// skipped or replaced by an imitation.
//
// # Invariants
//
//  1. Only processes that the package started are ever signalled, each by its
//     own process id.
//  2. A server counts as gone when the last of its processes has let go of the
//     pipe it logs to, not when the first one died. Only then can it be started
//     again on the same data.
//  3. Close leaves nothing behind: no process, no directory. A program that is
//     killed takes its servers with it on Linux; their directories are removed
//     when the next server is started.
//
// # Concurrency and time
//
// A server may be used by many goroutines; starting, killing and stopping it is
// for one goroutine at a time, which a lock sees to. Waiting is bounded by the
// context and by a limit of the package.
package testdb
