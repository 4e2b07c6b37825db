// Package txnhttp carries a transaction from one of your HTTP services to another. The service
// that begins the transaction calls the others by a client with a [Transport], which adds the
// transaction's id to the requests. The others wrap their handlers in a [Middleware] (call
// [New]); a handler then works in the caller's transaction, with its own databases:
//
//	// in the service that begins
//	stock := &http.Client{Transport: &txnhttp.Transport{Hosts: []string{"stock.internal:8080"}}}
//
//	// in the service that is called
//	mw := txnhttp.New(manager, txnhttp.TrustVerifiedPeers, txnhttp.Options{})
//	server := &http.Server{Handler: mw.Handler(mux)}
//
// Only the service that began the transaction commits it.
//
// # What a handler sees
//
// The context of its request carries the transaction ([txn.FromContext]), so a [txn.Run] of the
// same manager joins it. The context ends at the transaction's deadline. The answer is held
// back until the coordinator has the votes:
//
//	handler answers < 400       votes handed in; the answer is sent as it is
//	handler answers >= 400      the whole transaction is rolled back; the answer is sent as it is
//	handler panics              the whole transaction is rolled back; the panic goes on
//	votes are refused           the whole transaction is rolled back; 409
//	transaction is not active   the handler is not run; 409
//	coordinator is unavailable  the handler is not run; 503 with Retry-After
//
// The package's own answers are JSON, {"error":{"code":…,"message":…,"transaction":…}}, with
// the codes of [txn.Code]. [HeaderOutcome] is "rolled-back" on every answer after which that is
// certain. A caller that gets such an answer is to fail its own work; if it commits all the
// same, the commit is refused.
//
// # Trust
//
// An id is a capability: any client that knows it can work in the transaction, vote in it and
// roll it back. So a [Transport] sends it only to the hosts that it was given, and a
// [Middleware] accepts it only from requests that its trust function accepts. Others are
// refused, not served outside the transaction, since their sender relies on being in it.
//
// # Invariants
//
//  1. A request without [txn.HeaderID], or with a phase of the coordinator's own call to a
//     participant (Txmgr-Phase), reaches the handler unchanged, and so does its answer:
//     web.Handler can be served behind a [Middleware]. In all other answers the header
//     Txmgr-Outcome is the middleware's own; the handler's is removed.
//  2. No byte of a successful answer is sent before the coordinator has the votes.
//  3. However a request ends, its resources are prepared, rolled back, or released to the
//     coordinator; after its votes they follow the decision in the background.
//  4. Memory held for an answer is bounded; so is the time for which resources wait for the
//     decision.
//
// # Concurrency and time
//
// Everything is safe for concurrent use. Each request takes a goroutine, and the connections of
// its resources, until its transaction is decided, at most [Options].Margin longer than the
// transaction's timeout. [Middleware.Close] drains them.
//
// # What it does not do
//
// It does not let a handler stream its answer inside a transaction: flushing and hijacking
// return [ErrResponseBuffered]. It does not let a service be called twice in one transaction
// for work at the same participant: there is one branch, and it has voted. net/http repeats a
// request by itself when a kept connection turns out to be dead and the request has no body or
// an Idempotency-Key; that is such a second call.
package txnhttp
