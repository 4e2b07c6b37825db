// Package web is the participant driver for HTTP services, in any language. The coordinator calls
// a service: it posts to a URL to prepare, to commit and to roll back (try, confirm, cancel).
// docs/reference/web.md is the contract on the wire, for services that do not use this package.
//
// The application calls [New], and enlists the service with a payload that says what to do:
//
//	mail := web.New("mail")
//	err := mail.EnlistJSON(ctx, tx, map[string]string{"to": "ann@example.org"})
//
// A service in Go mounts a [Handler], which implements the contract and calls the service's
// [Callbacks] for the work:
//
//	store := web.SQL(db, web.PostgreSQL, "")
//	callbacks := web.Callbacks[*sql.Tx]{Prepare: queueMail}
//	mux.Handle("/txmgr/", web.Handler(store, callbacks, web.Options{}))
//
// The coordinator makes its side with [Driver], from the settings of the registration, which has
// to say that the coordinator prepares.
//
// # The barrier
//
// A service has to answer the same if a request is repeated, to refuse a prepare that comes after
// its rollback, and to know its vote after a crash. [Handler] keeps one row for each branch, in
// the service's own database, and changes it in the same local transaction as the work. See
// [Store]; [SQL] keeps the rows in PostgreSQL or MariaDB, [ledger.Barrier] in a ledger.
//
// # Invariants
//
//  1. A vote of yes is a complete 2xx response to prepare that says nothing else. A response that
//     is not understood is no vote: prepare is repeated.
//  2. Commit and rollback are repeated until the service has reported the outcome. If it does not
//     know a branch that it voted yes for, the outcome is [participant.Unknown], a heuristic
//     hazard.
//  3. Redirects are not followed, no proxy is used, and the dialled address is checked after the
//     name has been resolved, at every connection.
//  4. Bodies, headers, lists, connections and times are bounded, on both sides.
//  5. No secret is in the settings, in an error, or sent.
//  6. The work of a callback and the row of its branch become durable together or not at all.
//     Only a branch in the right state reaches a callback, and the callbacks of one branch run
//     one after the other.
//  7. A callback that ends its local transaction itself (a COMMIT that it or a library sends) is
//     detected, as far as possible: the work is not done again, and the responses in all phases
//     report it, even if the callback then returns an error or a no. It is not detected if the
//     callback rolls back (in MariaDB also: ignores a deadlock), has further work committed, and
//     the connection cannot be queried afterwards: because of a crash, because the connection is
//     lost or busy with rows, because the time is over, or because the callback ends its
//     [sql.Tx] by Rollback; in PostgreSQL, because it begins another transaction, and that fails;
//     in MariaDB, because its last statement fails by a deadlock or the like.
//  8. A no is final, and so is a rollback: a prepare that comes later is refused.
//
// # Concurrency and time
//
// Everything is safe for concurrent use. Calls honour their context; the coordinator's also have
// a timeout of their own. A callback ends with the time that the coordinator gave for the
// prepare, and in any case with [Options].Timeout; it does not end because its caller has
// disconnected. The wall clock dates signatures and rows.
//
// # What it does not do
//
// It does not isolate: others may see what a service has prepared before the transaction is
// decided, if the service lets them. It speaks only HTTP/1.1, so that a call that hangs blocks no
// other. It cannot determine by itself the outcome of a branch that a service has forgotten.
//
// [ledger.Barrier]: https://pkg.go.dev/github.com/txmgr/txmgr/participant/ledger#Barrier
package web
