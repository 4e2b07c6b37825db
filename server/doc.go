// Package server serves one coordinator over the network: the API txmgr.v1 for connect, gRPC,
// gRPC-Web and plain JSON, health, and metrics, all on one port, over HTTP/1.1 and HTTP/2,
// with TLS or without. Call [New], then [Server.Listen] and [Server.Serve]; [Server.Handler]
// is for a listener of the program's own.
//
//	s, err := server.New(server.Config{Listen: "127.0.0.1:7460"}, coordinator)
//	if err != nil {
//		return err
//	}
//	ln, err := s.Listen()
//	if err != nil {
//		return err
//	}
//	return s.Serve(ctx, ln) // until ctx ends
//
// It authenticates, forwards, translates, limits and observes calls; it decides nothing. It
// serves a [Coordinator], which *node.Node implements.
//
// # The way of a call
//
//	handler.go              authenticates it (server/auth), counts it, and refuses it when there are
//	                        too many or the node cannot serve it
//	forwarded_call.go       on a follower: to the leader and back (server/forward)
//	interceptor.go          sets its deadline, recovers panics, converts errors
//	transactions.go, ...    one file for each service: messages become types of package txn
//	commands.go             the same for the commands of a Pipe (server/pipeline)
//	observe.go, metrics.go  log it and count it
//
// methods.go is the table of all methods: role, class, which node answers, and how a method is
// called through a Pipe.
//
// # A cluster
//
// A follower forwards calls to the leader unchanged, over one or a few HTTP/2 connections,
// and returns the responses: any node takes any call. Its responses carry Txmgr-Leader with
// the URL of the leader. Status, Leave, health and metrics concern the node that is called,
// and so do some reads when Txmgr-Stale allows that. A forwarded call carries
// Txmgr-Forwarded, and is not forwarded again.
//
// # Authentication and roles
//
// Tokens come as Authorization: Bearer. One table gives each method its role. The secret in
// [Config].RootTokenFile always has the role admin; all other tokens are the Coordinator's. A
// call with a token that this node does not know is forwarded to the leader, which decides,
// so that a token is valid on every node as soon as it is created; if the call concerns this
// node, it waits up to half a second for the token to be replicated. A long call ends within
// two seconds after its token is revoked or expires.
//
// # Invariants
//
//  1. Load is shed before anything is proposed: a call that this package answers
//     "unavailable" with a time after which to retry has changed nothing.
//  2. Everything is bounded: bodies, whether they are read or not, headers, connections,
//     concurrent calls, streams, lists, commands in flight per Pipe and in all, and the time
//     of every call. Calls for which the role reader is enough have limits of their own, and
//     do not use up those of the calls that decide.
//  3. Every failed call carries a Failure (api/txmgr/v1) with the code, the transaction's id
//     and state, and what to do next. Failures that arise before a message is decoded carry
//     at least the code, as a header.
//  4. A panic of a handler ends one call and is logged with its stack; the client receives no
//     detail of it.
//  5. Without [Config.Insecure] it serves addresses beyond loopback only with both TLS and
//     tokens.
//  6. Transaction ids never become labels of metrics.
//  7. A call whose response is lost between two nodes is in doubt if it decides and may have
//     arrived; else it is unavailable, without a time after which to retry if it may have
//     been executed.
//  8. Pipes, Watches and Waits end when another node becomes the leader. A Pipe ends after
//     the commands that were read from it are answered, and without a Failure: a Failure
//     would state that nothing was done.
//  9. A route without a role admits no caller. Secrets are never logged.
//  10. Tables of addresses and of tokens are bounded, whatever calls arrive.
//
// # Concurrency
//
// A [Server] serves one listener and is safe for concurrent use. The commands of a Pipe run
// concurrently, in no order; replies that are ready at the same time are sent in one message.
// A begin, a commit and a completion report occupy no goroutine while they wait, for the log or for
// votes, if the Coordinator has the method Async, as a node has.
//
// # Time
//
// A call has the deadline that its client sent, at most [Config.MaxCallTimeout], or
// [Config.CallTimeout] if it sent none. A call that fans out to participants has
// [Config.FanoutTimeout], or less if its client says so, and is ended when the server begins
// to stop. Commands of a Pipe have [Config.CallTimeout], rounded up by at most a second: they
// share their contexts, because a timer per command would cost as much as the command. The end of
// a context is noticed up to 10 ms later.
//
// A forwarded call has the deadline that its client sent plus half a second, because the
// leader's response is more precise. If another node becomes the leader meanwhile, the former
// leader has one second to answer.
//
// # What it does not do
//
// It does not choose the leader, and does not repeat calls: clients do.
package server
