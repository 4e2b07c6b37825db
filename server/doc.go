// Package server puts one coordinator on the network: the API txmgr.v1 for
// connect, gRPC, gRPC-Web and plain JSON, health, and metrics, all on one port,
// over HTTP/1.1 and HTTP/2 without TLS.
//
// It translates, limits and observes; it decides nothing. What it serves is a
// [Coordinator], which *node.Node is.
//
// # Invariants
//
//  1. Load is shed before anything is proposed: a call that is answered
//     "unavailable" by this package has changed nothing.
//  2. Everything is bounded: bodies, headers, calls at once, streams, commands
//     in flight per Pipe and in all, and the time of every call.
//  3. Every failed call carries a Failure (api/txmgr/v1) with the code, the
//     transaction's id and state, and what to do next. Failures that arise
//     before a message is decoded carry at least the code, as a header.
//  4. A panic of a handler ends one call, is logged with its stack, and shows
//     nothing of itself to the caller.
//  5. Without [Config.Insecure] it serves loopback addresses only.
//  6. Ids of transactions never become labels of metrics.
//
// # Concurrency
//
// A [Server] serves one listener and may be used from several goroutines. The
// commands of a Pipe run concurrently, in no order; the replies that are ready
// together leave in one message.
//
// # Time
//
// A call has the deadline that its caller sent, at most [Config.MaxCallTimeout],
// or [Config.CallTimeout]. One that asks participants has [Config.AskTimeout], or
// less if its caller says so, and is ended when the server begins to stop. Commands
// of a Pipe have [Config.CallTimeout], rounded up by at most a second: they share
// their contexts, because a timer per command would cost as much as the command.
//
// # What it does not do
//
// No TLS, no authentication, no forwarding between nodes.
package server
