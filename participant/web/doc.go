// Package web lets HTTP services, in any language, take part in global
// transactions. The coordinator calls them: it posts to a URL to prepare, to
// commit and to roll back (try, confirm, cancel). docs/reference/web.md is the
// contract on the wire, for those who write a service without this package.
//
// There are three parts. [Driver] makes the coordinator's side from the settings
// of the registration, which has to say that the coordinator prepares. [Service]
// is the application's side: it enlists a branch with what the service is to do.
// [Handler] is for services in Go: it keeps the promises of the contract, and the
// service gives it the work.
//
// # The barrier
//
// A service has to answer the same when a request comes twice, to refuse a
// prepare that comes after its rollback, and to know what it has promised after a
// crash. [Handler] keeps one row for each branch, in the service's own database,
// and changes it in the same local transaction as the work. See [Store]; [SQL]
// keeps the rows in PostgreSQL or MariaDB, [ledger.Barrier] in a ledger.
//
// # Invariants
//
//  1. A vote of yes is an answer 2xx to prepare that is complete and says nothing
//     else. An answer that is not understood is no answer: it is asked again.
//  2. Commit and rollback are called until the service has said what came of
//     them. What it does not know of a branch that it voted yes for is
//     [participant.Unknown], a hazard.
//  3. Redirects are not followed, no proxy is asked, and the address that is
//     dialled is judged after the name has been resolved, at every connection.
//  4. Bodies, headers, lists, connections and times are bounded, on both sides.
//  5. No secret is in the settings, in an error, or sent.
//  6. The work of a callback and the row of its branch become durable together
//     or not at all. Only a branch in the right state reaches a callback, and the
//     callbacks of one branch run one after the other.
//  7. A callback that ends its local transaction itself (a COMMIT that it or a library
//     sends) is found out, as far as that can be: the work is not done again, and the
//     answers to all phases say so, also when it then returns an error or a no. Not found
//     out is one that rolls back (in MariaDB also: ignores a deadlock), has further work
//     committed, and after which nobody can ask: there is a crash, the connection is lost
//     or busy with rows, the time is over, or it ends its [sql.Tx] by Rollback; in
//     PostgreSQL, it begins another transaction, and that fails; in MariaDB, its last
//     statement fails by a deadlock or the like.
//  8. A no is final, and so is a rollback: a prepare that comes later is refused.
//
// # Concurrency and time
//
// Everything may be used by many goroutines. Calls honour their context; the
// coordinator's also have a timeout of their own. A callback ends with the time
// that the coordinator gave for the prepare, and in any case with
// [Options].Timeout; it does not end because its caller has gone away. The wall
// clock dates signatures and rows.
//
// # What it does not do
//
// It does not isolate: what a service prepared, others may see before the
// transaction is decided, if the service lets them. It speaks HTTP/1.1 alone, so
// that a call that hangs holds up no other. It cannot find out by itself how a
// branch ended that a service has forgotten.
//
// [ledger.Barrier]: https://pkg.go.dev/github.com/txmgr/txmgr/participant/ledger#Barrier
package web
