// Package forward sends calls to the leader of the cluster unchanged, and returns its responses
// to the client. Make a [Forwarder] with [New], and call [Forwarder.Forward] for each call. It
// knows the protocols of connect, gRPC and gRPC-Web as far as it needs to give a truncated
// response an end; how a failure looks to the client is up to the call's [Responder].
//
// # Invariants
//
//  1. A call whose response is lost is in doubt if it decides and may have arrived; else it is
//     unavailable, without a time after which to retry if it may have been executed.
//  2. A call is bounded by its client's deadline plus half a second; if another node becomes
//     the leader meanwhile, the former leader has one second to answer.
//  3. The body of a call is read completely before anything is sent, so that a slow client
//     occupies nothing on the leader; only the stream of a Pipe is sent as it arrives.
//  4. A forwarded call carries Txmgr-Forwarded, by which the leader knows that it must not
//     forward it again.
//
// A Forwarder is safe for concurrent use.
package forward
