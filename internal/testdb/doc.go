// Package testdb runs private database servers: for tests, for the demo's scratch databases and for
// benchmarks. Call [OpenPostgres], [OpenMariaDB] or [OpenPgBouncer] in a test, and the functions
// beginning with Start elsewhere:
//
//	server := testdb.OpenPostgres(t, testdb.PostgresConfig{})
//	dsn := server.DSN(server.NewDatabase(t, "bank"))
//
// A server is a real one, from the operating system's packages, with its data in a directory of its
// own. It listens only on 127.0.0.1, on a port below the ephemeral range, so that it finds the same
// port free again after a crash. A missing program is an error that says what to install; nothing
// is skipped or replaced by an imitation.
//
// # Invariants
//
//  1. Only processes that the package started are ever signalled, each by its own process id.
//  2. A server counts as ended when the last of its processes has closed the pipe it logs to, not
//     when the first one died. Only then can it be started again on the same data.
//  3. Close leaves nothing behind: no process, no directory. On Linux the servers of a program
//     that is killed end with it; their directories are removed when the next server is started.
//
// # Concurrency and time
//
// A server may be used by many goroutines; a lock serializes starting, killing and stopping it.
// Waits are bounded by the context and by a limit of the package.
package testdb
