// Package txnhttp carries a transaction from one HTTP service of yours to another.
// The service that begins it calls the others by a client with a [Transport], which
// tells them its id; they wrap their handlers in a [Middleware], and a handler then
// works in the caller's transaction, with its own databases:
//
//	// in the service that begins
//	stock := &http.Client{Transport: &txnhttp.Transport{Hosts: []string{"stock.internal:8080"}}}
//
//	// in the service that is called
//	mw := txnhttp.New(manager, txnhttp.VerifiedPeers, txnhttp.Options{})
//	server := &http.Server{Handler: mw.Handler(mux)}
//
// Only the one that began the transaction commits it.
//
// # What a handler sees
//
// Its request's context carries the transaction ([txn.FromContext]), so a [txn.Run]
// of the same manager joins it. The context ends with the transaction's time. What
// it answers is held back until its votes are with the coordinator:
//
//	handler answers < 400   votes handed in; the answer goes out as it is
//	handler answers >= 400  the whole transaction is rolled back; the answer goes out as it is
//	handler panics          the whole transaction is rolled back; the panic goes on
//	votes are refused       the whole transaction is rolled back; 409
//	transaction is over     the handler is not run; 409
//	coordinator is away     the handler is not run; 503 with Retry-After
//
// Answers of the package's own are JSON, {"error":{"code":…,"message":…,"transaction":…}},
// with the codes of [txn.Code]. [HeaderOutcome] says "rolled-back" on every answer
// after which that is certain. The caller is to fail its own work when it gets such an
// answer; if it commits all the same, it is refused.
//
// # Trust
//
// An id is a capability: whoever knows it can work in the transaction, vote in it and
// roll it back. So a [Transport] tells it to the hosts that it was given and to
// nobody else, and a [Middleware] takes it from requests that its user trusts.
// Others are refused, not served outside the transaction, since their sender relies
// on being in it.
//
// # Invariants
//
//  1. A request without [txn.HeaderID], or with a phase of the coordinator's own call
//     to a participant (Txmgr-Phase), reaches the handler untouched, and so does its
//     answer: web.Handler can be served behind a [Middleware]. Of all other answers
//     the header Txmgr-Outcome is the middleware's own; what the handler sets is removed.
//  2. No byte of a successful answer leaves before the votes are in.
//  3. Whatever ends a request, its sessions are prepared, rolled back, or released to
//     the coordinator; after its votes they follow the decision in the background.
//  4. Memory held for an answer is bounded; so is the time that sessions follow.
//
// # Concurrency and time
//
// Everything is safe for concurrent use. Following takes a goroutine, and the
// sessions' connections, for each request until its transaction is decided, at most
// [Options].Margin longer than its time. [Middleware.Close] drains them.
//
// # What it does not do
//
// It does not let a handler stream its answer inside a transaction: flushing and
// hijacking answer [ErrResponseBuffered]. It does not let a service be called twice in one
// transaction for work at the same participant: there is one branch, and it has
// voted. net/http repeats a request by itself when a kept connection turns out to be
// dead and the request has no body or an Idempotency-Key; that is such a second call.
package txnhttp
