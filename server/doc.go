// Package server puts one coordinator on the network: the API txmgr.v1 for
// connect, gRPC, gRPC-Web and plain JSON, health, and metrics, all on one port,
// over HTTP/1.1 and HTTP/2, with TLS or without.
//
// It admits, passes on, translates, limits and observes; it decides nothing. What it
// serves is a [Coordinator], which *node.Node is.
//
// # A cluster
//
// A node that does not lead passes calls on to the one that does, as they are, over
// one or a few connections of HTTP/2, and their answers back: any node takes any call.
// Its answers carry Txmgr-Leader with the URL of the one that leads. Status, Leave,
// health and metrics are about the node that is asked, and so are some reads when
// Txmgr-Stale allows that. A call that was passed on carries Txmgr-Forwarded, and is
// not passed on again.
//
// # Who may do what
//
// Tokens come as Authorization: Bearer. Each route has a role in one table. The
// secret in [Config].RootTokenFile is an admin's always; all others are the
// Coordinator's. A token that this node does not know goes to the one that leads,
// which has the last word, so that a token is good everywhere as soon as it is made;
// where the call is about this node, it waits a moment for the token to arrive.
// What runs long ends within a second or two when its token does.
//
// # Invariants
//
//  1. Load is shed before anything is proposed: a call that this package answers
//     "unavailable" with a time after which to come again has changed nothing.
//  2. Everything is bounded: bodies, whether they are read or not, headers,
//     connections, calls at once, streams, lists, commands in flight per Pipe and in
//     all, and the time of every call. Those who may only look do not use up what
//     others need to decide.
//  3. Every failed call carries a Failure (api/txmgr/v1) with the code, the
//     transaction's id and state, and what to do next. Failures that arise
//     before a message is decoded carry at least the code, as a header.
//  4. A panic of a handler ends one call, is logged with its stack, and shows
//     nothing of itself to the caller.
//  5. Without [Config.Insecure] it serves addresses beyond loopback only with both
//     TLS and tokens.
//  6. Ids of transactions never become labels of metrics.
//  7. A call whose answer is lost between two nodes is in doubt when it decides and
//     may have arrived; else it is unavailable, without a time after which to come
//     again when it may have been carried out.
//  8. Pipes, Watches and Waits end when another node leads. A Pipe does so after what
//     was read of it is answered, and without a Failure: that would say that nothing
//     was done.
//  9. A route without a role admits nobody. Secrets are never logged.
//  10. Tables of addresses and of tokens are bounded, whoever calls.
//
// # Concurrency
//
// A [Server] serves one listener and may be used from several goroutines. The
// commands of a Pipe run concurrently, in no order; the replies that are ready
// together leave in one message. A commit that waits for votes holds no goroutine, if
// the Coordinator has a CommitThen as a node has.
//
// # Time
//
// A call has the deadline that its caller sent, at most [Config.MaxCallTimeout],
// or [Config.CallTimeout]. One that asks participants has [Config.FanoutTimeout], or
// less if its caller says so, and is ended when the server begins to stop. Commands
// of a Pipe have [Config.CallTimeout], rounded up by at most a second: they share
// their contexts, because a timer per command would cost as much as the command.
//
// A call that is passed on has the deadline that its caller sent and half a second
// more, for the answer of the node that knows. When another node is elected meanwhile,
// the one that led has a second to answer.
//
// # What it does not do
//
// It does not choose who leads, and does not repeat calls: callers do.
package server
