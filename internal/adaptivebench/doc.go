// Package adaptivebench repeats, on this machine and in real time, the experiments that the
// optimizers of package adaptive were first presented with. Call [Run] with a [Config]. An
// HTTP server on the loopback address runs each request on an [adaptive.Pool], users send one
// request after the other, and fixed pools are compared with optimizers.
//
// # What the dissertation has, and what is here
//
//   - Applications. Prime1m and Prime10m try by division whether one of 21 numbers
//     from a million, or ten million, is prime: one of the 21 is, and takes a million,
//     or ten million, divisions; the others end at once or nearly. DbWrite inserts the
//     time into a table, DbRead reads one of 50,000 rows. The dissertation had MySQL, and
//     opened a connection for each request; here it is a private PostgreSQL, with a
//     connection for every user, opened before: the number of workers is the only
//     limit.
//   - Load. Users in a closed loop without a pause: as many all the time, or five
//     phases of five minutes, after the dissertation's figure 3.4. That picture is lost. The
//     text says that there is one user from 5:00 on, and that the users are suddenly
//     fewer at 15:00 and more again at 20:00. The numbers were chosen here: 50, 1, 100,
//     none and 50 users.
//   - Contenders. Fixed pools, and optimizers that begin with one worker. Throughput,
//     mean and p99 are as published; their reconciled forms have names of their own.
//   - Time. An experiment of 25 minutes is shortened by a factor, and so are the
//     windows of the dissertation's optimizers, 10 seconds there. The work in a window
//     is not: it holds as many times fewer requests, so it is noisier, by the root of
//     the factor. Knee keeps its half seconds, since its patience is in seconds; so the
//     load changes as many times faster for it. A fixed pool has nothing to learn, and
//     is measured for a fifth of the time.
//
// # Invariants
//
//  1. A request that fails ends the experiment: no figure has failures in it.
//  2. Every figure of a run is of all its requests; latencies are the server's, from
//     the request's arrival at the pool to its end, as in the dissertation. The latencies that
//     users saw, with HTTP, are beside them.
//  3. DbWrite has written as many rows as it has answered, or the run fails.
//  4. The contenders of an application and a load take turns in a random order.
//  5. An interrupted run leaves the runs that were completed before.
//
// # Concurrency and time
//
// One run at a time, in one process with its load: both use the same processors, and
// so does the database. Nothing else should use them.
//
// # What it does not do
//
// It does not evaluate, and it does not test the optimizers: package adaptive does.
package adaptivebench
